"""Answers: what is read out of a response, and what counts as the same (real files: test_reasoning)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalnb.errors import DataError
from causalnb.tasks import answers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2 + 3 = 5\n#### 5", 5),
        ("#### 1,450,000", 1_450_000),
        ("It costs $1,234.50.", Fraction("1234.5")),
        ("The answer is $-3$, not 4.", -3),
        ("The answer is 3. I checked it 4 times", 3),
        ("so \\boxed{12} of 13", 12),
        ("<answer>7</answer> 8", 7),
        ("first 1 then 2", 2),
        ("the answer is unclear, 9", 9),
        ("none", None),
        ("#### 5\n#### 6", 6),
        ("it is .5", Fraction(1, 2)),
        ("20%", 20),
    ],
)
def test_numbers_are_read(text, number):
    assert answers.read_number(text) == number


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("(C)", "C"),
        ("D.", "D"),
        ("(A)$-1+12 i$", "A"),
        ("the correct answer is answer3", "C"),
        ("The answer is (B).", "B"),
        ("Answer : D", "D"),
        ("Answer: A ... so the answer is option C", "C"),
        ("Choice $\\mathbf{C}$ is correct. Choice A is incorrect", "C"),
        ("\\boxed{\\text{(E)}}", "E"),
        ("<answer> B </answer> or C", "B"),
        ("so it must be D", "D"),
        ("**Answer:** B", "B"),
        ("Choice $D$ is the best answer. Choices A and B are not", "D"),
        ("A planet turns", None),
        ("the answer is a function", None),
        ("", None),
        ("answer0", None),
    ],
)
def test_choices_are_read(text, letter):
    assert answers.read_choice(text) == letter


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("so \\boxed{\\frac{1}{2}} and", "\\frac{1}{2}"),
        ("\\boxed{1} \\boxed{ {2} }", "{2}"),
        ("x+1", "x+1"),
        ("The answer is $\\pi$.", "$\\pi$"),
        ("<answer>\\boxed{3}</answer> 4", "3"),
        ("\\boxed{1} \\boxed{2", "1"),
        ("the answer is 3.\nDone", "3"),
    ],
)
def test_mathematics_is_read(text, latex):
    assert answers.read_math(text) == latex


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("\\frac12", "0.5"),
        ("\\dfrac{1}{2}", "\\frac 12"),
        ("\\frac{\\sqrt3}{3}", "\\frac{1}{\\sqrt{3}}"),
        ("2(k+1)", "2k+2"),
        ("(a+5)(b+2)", "ab+2a+5b+10"),
        ("1\\frac{4}{5}", "9/5"),
        ("-1\\frac12", "-1.5"),
        ("\\{1\\pm\\sqrt{5},-2\\}", "\\{-2,1-\\sqrt5,1+\\sqrt5\\}"),
        ("1,-2", "-2, 1"),
        ("x=5", "5"),
        ("y = 2x + 3", "3+2x"),
        ("x \\in [-2,7]", "[-2,7]"),
        ("(2,12) \\cup (12,102)", "(12,102)\\cup(2,12)"),
        ("\\left(3,\\frac{\\pi}{2}\\right)", "(3, 0.5\\pi)"),
        ("90^\\circ", "90"),
        ("\\$32,\\!348", "32348"),
        ("864 \\mbox{ inches}^2", "864"),
        ("\\frac{270}7\\text{ degrees}", "\\frac{270}{7}"),
        ("10\\%", "10"),
        ("\\text{Evelyn}", "evelyn"),
        ("\\text{(C)}", "C"),
        ("4210_{5}", "4210_5"),
        (".35625", "0.35625"),
        ("\\begin{pmatrix} 1/5 \\\\ -18/5 \\end{pmatrix}", "\\begin{pmatrix}0.2\\\\-3.6\\end{pmatrix}"),
        ("6 - 5i", "-5i+6"),
        ("\\sqrt[3]{8}", "2"),
        ("2^{-1}", "1/2"),
        ("\\cot x", "\\frac{\\cos x}{\\sin x}"),
        ("11\\sqrt2", "\\sqrt{242}"),
        ("{3}", "3"),
        ("2\\cdot3*4", "24"),
    ],
)
def test_the_same_mathematics(left, right):
    assert answers.same_math(left, right) and answers.same_math(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("\\frac12", "0.51"),
        ("(1,2)", "(2,1)"),
        ("(3,4]", "(3,4)"),
        ("1,2", "1,2,3"),
        ("1,1,2", "1,2,2"),
        ("p-q", "-p-q"),
        ("x^8", "x^9"),
        ("odd", "ddo"),
        ("52_8", "53_8"),
        ("11111111100", "11111111101"),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}"),
        ("(-\\infty,0]", "[0,\\infty)"),
        ("\\{1,2\\}", "\\{1,3\\}"),
        ("1\\pm2", "1\\pm3"),
        ("east", "west"),
        ("", "0"),
        ("1/0", "2/0"),
        ("9^9^9^9", "1"),
        ("(" * 140, "1"),
        ("1" * 200 + "x", "1"),
        ("\\sqrt[3{8}", "2"),
        ("(1", "1"),
        ("10^{10^{10}}", "1"),
        ("2)", "2"),
        ("[1,2]\\cup[3,4]", "[1,2]"),
    ],
)
def test_other_mathematics(left, right):
    assert not answers.same_math(left, right) and not answers.same_math(right, left)


@given(st.text("0123456789+-*/^(){}[],.\\fracsqtpi ", max_size=25), st.text(max_size=10))
def test_anything_can_be_compared(left, right):
    assert answers.same_math(left, left)
    assert answers.same_math(left, right) == answers.same_math(right, left)


@given(st.integers(-(10**6), 10**6), st.integers(1, 9))
def test_another_number_is_wrong(number, off):
    assert answers.check("number", f"so\n#### {number:,}", str(number))
    assert answers.check("math", f"\\boxed{{{number:,}}}", str(number))
    for kind in ("number", "math"):
        assert not answers.check(kind, str(number + off), str(number))


def test_answers_on_record_must_be_there():
    for kind, gold in (("number", "none"), ("choice", "Z"), ("math", " ")):
        with pytest.raises(DataError, match="on record"):
            answers.check(kind, "1", gold)
    with pytest.raises(DataError, match="kind of answer 'word'; choose one of number, choice, math"):
        answers.check("word", "1", "1")
