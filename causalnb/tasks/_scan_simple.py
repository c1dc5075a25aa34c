"""Which pairs of scan.generate() are in the training part of the published "simple" split of SCAN.

One bit a pair, least significant bit first, base64: the one split that is a random draw and not a rule.
"""

TRAIN_BITS = """
+9/1//v57evr/2u//jv6//7v/2H9T/7vLu925o+/Pyn/x//3z/f/v9Wv82On3u/Xvz3u/135+/3/+q/V/3/v//de/7x/7v5/9f+7Z/+79bn/
m/X/P7z/3u+79X/enRvO96d//uf/f39Pe9v8377dbrn+rXkfTf59n/9/1z3q33//+bbXXe7//97u/etv3rtr/trW6/j//7//7e/v6/vu///8
t2/7t/d/7//38v3/f2L/3+zF9/1+z7/uP9u7vH+6+vv+/f/X+ve4Hffbdfv/X6+v9/PW7bz7P3P79/vZl///+8/zXr/c3r/992vnev+3d7tn
9393w1dv/t7/9dX72+r/8f/t/Zcu//01vbv/f749n99M93f+zv+r/3//zf///mH/1//4392/93brX/793//7f7/X/dW83/t/d/97uu1//1L/
9P/Jz75e/59/7f5n//7/5/f7+t/1/42t/rq875dX+/99v7q33Pl///9zz/5X////WxO+be/3c/7f7Vt+//y1/f9/uv3//ff//W/f/29Xb9ff
/c//e32/zd9uv/7vf3n5+jfcn3wfqfR/u9q7+2+/3/ff/1f/p+d+5jO3/6389/+7/f3X+f3u+/Lfav/dr//b/v//blW+v/54GP//6///nV99
+/v9//1/9Pf//3ft//nbv9d9//v7/35v/uu77///+0u/87v913fP9u139eb3/3bO36/fr9tr/7/d8v2+f/7/+s2vv73t3uv9//fP/98Xff/f
/v2a++9+/3/z///fe/n/6rbua92v/N5//f+ant/7+fT9/+H/6r6Ob9d/527/nfff99bv6///b5+/+nl/tr/87/fD376+/0ff/TH+df9n3/vv
nq8r9//v/f6uf37V3nvf+7/5V7/e/f/93923xdc/X+9n+/z/+v/77/OT/y/ez77fZ1rv+///+X///O/9///+/+/97+/f1p/+/e/r3t+3//n/
/P/uf8////O+////cu/f+7u/v2t/uu/Vkc67//6/39u+/n9n5/vnz976v/Z/+/vd2f7n9Z//8++//t//d/f//9mz/z85/13pN+68+F/72u//
9fv//3N//7r69m7/3f3z//elXv2v9v/P//7/f3+/uXdf6tv//fv///f//399/83b/+l///+93+f+8d//+/7/9x3/+/3/v71v8/zffn2z3d/+
/df/3/599//fdfzH/7v+/f/fN23H27q//c7/0f5+//nvr/1/5//+//+/c8/v/77s/tXV+/38X//+///E8/O/vv/73V+P/v33/7qdp2+9pf2+
/f3nz/N/2o/u+en9Peedf/58v/2n+5f3f3X+fv+d/HOLv/+993/udf5/Q+///+/Zf3t233+//z73rfvrf/u39//n//r3/f/b31z5/+/tZrl/
7nm+Zy8/2/+X/v+/Xe/8v3/++/////9/3/+/tXxf+f+/tv//9/u67v//ubXW9sf/Xv/8+vf3+fP38797tX3PvOv5PUd/3/8br7//7//v25/z
n799z3/3a/7f+/7vb/P9b39rd9//+/+a9rs79x/v1//v/e+/v/Tw/P73/T3J3//3vf7WX/+f9fzf/6//Pvz7nN89P/t/9/9ev33+/f/4DN/X
v/38/f9f7vf9r+3/bXvf9t9+f8Hrc7fv79/9///f7P1j3Pe/17//SS6qv8///7/9S3vX+sf//9nv7/n/+1y/9/vnle09f67/93v3t/c79/P/
7P//8+/d73zn3/3/QR837+trP66a/v9v79e1+fP+d/9/h73//3++vP/bdPvfw/fX+37/v7/5+59b/8t765vffv8//7/X3dv/u/63vV+/0f+3
p7//+r+l5+/st/b+/9//P36/P//7/68rP6tv+7/P/9+u/V//r2/93e+/fv/z/3/df/97bb/9+b9+/51nfv9hvf7sPW9v0/v///dsv/y9/f/3
/XP5Pf9/9/t//+XUN3f/7873Dz/rZvvO33fdaez9///9/s/vez/9f3k7h/9ff7/18/35rX50cU3//3r3/vv//3v+36f/G9//v///9/92jxf3
9t3/3ef/v9b9vf//5d/j9b5629739Xvn//v9/nH/++/6a3/4/+s6O/vrn+/3v7/Xv/f3v7+0f/vGn//ZG7X/7Z/O3/3871ffq2f/f9W3+/bN
/+//I2/lN/6///f7q///+/b//e32u9+39f7TvPn7/mI/2t+7/697f///f3f1+/f3//u9z/f/v//+/v13//fr9sS//z/97und/P+X0sf+///6
/f7//fv+7t//f/////fd//83fV+v/6/e/ffn/W/999Psv//f93v3/j9fe//7/9+//ten7+89d/nv6tfL+7/7nv7s6P9v+f+a7/rvn8s3/+5/
bfzPtzNrVL8/86+f7l/Lvd//f/v/9vw3j3e93Pu//9/7rb2//97///9/v/9/37ff//fbvf/a+9fv/l/u71f3Nd7/33/2afv6vO76/3//Hf/3
//VX/H///3P7m32//3z3b/+f7//38d7f/7b8/1/+7//43+33T2Xr6PZ+u531avzv//3//fP9Pt/3+v/z39/vPv/v99rX27ffHTb7X/X1/u7v
f29/X3c31o/v1d/3t/e/1dvPn2/du/f59+877/F3/Xa//7/X//O/+6/t/LfzOX/v3/+b9//75Hf////zX+f1vn1r/bvf7fXt+///+d/ny29/
99/H3+f+/v7Zz8f/d5+vP/1/td7d8v9/u//+//7z5DvvH3Jn3tdta3vd6HP/9+v/P+/vV//u//2+/qtf/9/2d4//+e/P1f//Pdb/+36z//v/
7399yrfZf73/f/9vNm5////t+/fh+3r+N2//6l8kf/ft3fp///f7lDPz/+3t39/67/v936//dfzf/f//ez8+9++/+f6//fv8f/f/bnv/277z
X3z3n3fXv3/d/3r/7z3//7+/zz5d/n39/7/nZ/r//9//9//v31b71d/d/9f9Tv97fo3n13//y//0t93+9/7v6/n+zz8f973///ru/zr++/3/
f9o1y5z//9/9+9/v/6/n//v//9/X/d/7/HX//v975/9/+evvf/4+///v/79/38919/b+te9v7V/f/3+ffZ/7vv/23P//vv93/2v85rd9vv/3
7D39/u+7/uf1/3/r///X7tve3v///W//6a77/9/f/1/Td/79zf+7Fv/bZ1/vv/5/v/v/x++8/OzzM///n373nu9i9v77aP32r//5/78/933/
9G/3//+f+1f//mv7y+vvur/v///tft3l3//398PN/3vV//L9///6//9ff/dH37vv+vv/9//++7/n3r/u/R/z+/9/90W72f+36/3wc/v+/3m5
f6z//1/5l7v13/dcv/Z2//3f/7/f/+8vPtZ/+/3//33/0P/5Hbvt0mv3753/szfP+m//8+j51/fvx3+/2///9999/Pb/6vX7v/cxUv/fZvfd
uv/u/3//33/933/5/f9zv/t/19/+HQ==
"""
