"""The real files of ACRE, RAVEN, PVR and ARC: rows of the registry in `files`, and those without a home.

Some were made with a published generator, or have been put together from two places; they lie at no address,
are looked for in a mirror and in the downloads folder alone, and are refused there like all others when their
content has another sha256.
"""

from __future__ import annotations

from causalnb.errors import DataError
from causalnb.tasks import files

_HOME = "https://raw.githubusercontent.com/Strong-AI-Lab/Logical-and-abstract-reasoning/HEAD/data"
_PUBLIC = (  # folder of the mirror, public home, {path below both: sha256}
    ("acre", f"{_HOME}/ACRE", {
        "object_dict.json":
            "3b4bf52b1428ce0dc7ed32fb839616439c6a824cae51ab0885b58a0b0f69c679",
        "raw/Comp/test.json":
            "0192527e64f12eb19b63f23969a1f934ed53e7481f9d1e3e721a63f513f6681e",
        "raw/Comp/val.json":
            "a3a26edc2610bb73f3282fd85fd085794d7a77bc21ac446c86df1e2ed2287bb7",
        "raw/IID/test.json":
            "3f6c7b6da31331c41899f9a0045ae74acfe8729b475754751e8c9e6a272f890c",
        "raw/IID/val.json":
            "e5c0458147a976abae06da4e6767940f9a5114c68f2f2f059dd17814ce6c74f1",
        "raw/Sys/test.json":
            "3273bdeae8ed2e9f37fa119b79d0988361e4b2186b4c8a4e12334023162c14a4",
        "raw/Sys/val.json":
            "10d0ce72ee78710f1f371f43dbbe19dd56763e238541b99ae023485ea2902d51",
    }),
    ("raven", f"{_HOME}/RAVEN", {
        "symbolic/center_single_test.jsonl":
            "3263d66cb192f56d4fb8bcb71dcb5939fb2c315baf9cccf65afaa39f27ef164a",
        "symbolic/center_single_val.jsonl":
            "dcd84d623289bee86315fdf86d4ad7c68295372203027ddf1d73b73697a3d548",
        "symbolic-open/center_single_test.jsonl":
            "8793d2cca554896751972b8dec8c02d429405014a0efdaafe01a698dc4a32659",
        "symbolic-open/center_single_val.jsonl":
            "604937b60d4f3aeb53a546f88723fbc60c657528418ee94637cd254d670cb3b8",
        "text/center_single_test.jsonl":
            "728d34026f342288397af266a11bc8b39f0ed96b98252c5561db7adb21222cc7",
        "text/center_single_val.jsonl":
            "cabcd7529a30a02446db0f1fc6034ac5b81ec512efc35bb084aca9645d37de62",
        "text-open/center_single_test.jsonl":
            "d8fd5e7c2a956c6ac785f67e548f584cc03f097f9321662bf65b80dfd8c4ecd9",
        "text-open/center_single_val.jsonl":
            "2aaa2bc54d129a570287d961c340a5feb319ec0920c7c2cda10aa0415c7f6fa6",
    }),
    ("pvr", f"{_HOME}/PVR/symbolic/IID", {
        "train_complexity0.jsonl":
            "48b7b227e9971ebd2aac70d540fe996fcaab70f51a9ea7d26ce01672dcfc0045",
        "train_complexity0_4ex.jsonl":
            "cfa611c48becdefb72fdbb801de4dd44ee2681b11a712be2348ef4f51a4175e9",
    }),
)
_ARC = {"test": "1d39300ddb0ab18dac11aaf589f9a9b7fcd86b7edb0cfe27ed0e7ddc3718654a",
        "train": "361dc74fc29d489c99b2c5c42122dfe568d50acc130fdbf5fb960b1e7be0e6ae"}
_HOMELESS = (  # how they were made, {name in a mirror: sha256}
    ("the output of https://github.com/WellyZhang/ACRE with seed 12345", {
        "acre/raw/IID/train.json":
            "b38105c0d149738268db9cd355b1487c7d54b4fc820d7c3b5dc27a644aff2083",
    }),
    ("the output of https://github.com/WellyZhang/RAVEN with seed 1234, as text", {
        "raven/symbolic/center_single_train.jsonl":
            "cf62426392f6584bbbebaa99381e1ead5852faa9def56bdd8685c0a907d464f6",
        "raven/symbolic/in_center_single_out_center_single.jsonl":
            "2e97eec8e6b63e084967c3c8fcccfa194672c7b31782c8df5d75c43c8f0c9a41",
        "raven/text/center_single_train.jsonl":
            "8e614a6174e668f5095a1bbd50ce8a57bf8458621ffef89ef079066af12e58ea",
        "raven/text/in_center_single_out_center_single.jsonl":
            "83b21ebffde4261399a90ff0d50be8ecd7d7da3140b21457ab81a76fc086ad8e",
    }),
    ("the RAVEN sets of https://github.com/openai/evals with their instruction put back", {
        "raven/symbolic/distribute_four.jsonl":
            "8b2b0954bae885007fdc012362af24063638d1a5e46d8e17fa10b750aedabbb9",
        "raven/text/distribute_four.jsonl":
            "ebadb66566c9d88754f9e2e75460de7c65dd2b5c995ab53345e1ae4bff1e5624",
    }),
)

PUBLIC = {f"{folder}/{path}": files.File(f"{folder}/{path}", f"{home}/{path}", digest, "MIT")
          for folder, home, rows in _PUBLIC for path, digest in rows.items()}
PUBLIC |= {f"arc_agi/symbolic_hard_{part}.jsonl": files.File(  # its home calls them test.jsonl, train.jsonl
    f"arc_agi/symbolic_hard_{part}.jsonl", f"{_HOME}/ARC/symbolic_hard/{part}.jsonl", digest, "MIT")
    for part, digest in _ARC.items()}
HOMELESS = {name: files.File(name, made, digest, "none stated")
            for made, rows in _HOMELESS for name, digest in rows.items()}
files.REGISTRY |= PUBLIC  # as rows of its own: fetched and checked in the same way


def read(name: str) -> bytes:
    """Uncompressed, checked content of a file of PUBLIC or HOMELESS; DataError if there is none to be had."""
    if name not in HOMELESS:
        return files.read(name)
    found = files._local(HOMELESS[name])
    if found is None:
        raise DataError(f"{name} cannot be downloaded: it is {HOMELESS[name].url}; point CAUSALNB_DATA at a "
                        f"folder that has it or take generated problems.")
    return found[1]
