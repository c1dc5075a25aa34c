"""The table of real data files: where each lies, what its bytes hash to, and under which licence.

A new file is a new row here and a card in data/README.md. How a checked copy is found is in `files`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A real data file: `name` below a mirror or the downloads folder, sha256 of its uncompressed content.

    `url` is its public home, where it may be gzipped (".gz"); a file that lies at no address has url="" and
    says in `made` what it is.
    """

    name: str
    url: str
    sha256: str
    licence: str
    made: str = ""


_ABSTRACT = "https://raw.githubusercontent.com/Strong-AI-Lab/Logical-and-abstract-reasoning/HEAD/data"
_CAT = "https://raw.githubusercontent.com/Kairong-Han/CAT/442237b294518a77ad3ef167b15bc82a2fdfd3eb"
_SOURCES = (  # folder of the mirror, public home, licence, {path below both, .gz if gzipped at home: sha256}
    (
        "scan",
        "https://raw.githubusercontent.com/brendenlake/SCAN/master",
        "BSD-3-Clause",
        {
            "add_prim_split/tasks_test_addprim_jump.txt": "8147ae2651422c701162e174d9d66158daa57858a26b30317ac61797118ac7a5",
            "add_prim_split/tasks_test_addprim_turn_left.txt": "15a82c2d25ac7c3c1fff7e18051fb085974ef3617de895c520d02144396a10e2",
            "add_prim_split/tasks_train_addprim_jump.txt": "e3c78485692e028eed4205e1b8b3fd0e785ef2c12d45b5b89204dadf5b239e23",
            "add_prim_split/tasks_train_addprim_turn_left.txt": "1b3fed86055dd7689d217f1b90cc8960aeb1cf200f4f209dc47935761b05304c",
            "length_split/tasks_test_length.txt": "0760752ed34a75116ae11dcc1ee17526b7500060da1366540730fa24894d7db3",
            "length_split/tasks_train_length.txt": "b034212dc7cf87ce62f3a067dd6ad49c4d5cd18d51d615d13825516bcb1ebbc2",
            "simple_split/tasks_test_simple.txt": "1fe1c8f5a19d0dc40e41bab94278f45f66f3dc415a978bd29855a23440610fc6",
            "simple_split/tasks_train_simple.txt": "941bb8a088c5f53ceff12fde902dc008933cf0c4203cc672c47b5f79d73262dd",
            "template_split/tasks_test_template_around_right.txt": "fc78a5d1077dc2c206d6c42ed89fb9022867618c3f331179bafd3ec1ca699474",
            "template_split/tasks_train_template_around_right.txt": "d5d35d174d557645fc61f289424afa0d95fde21422c59a9819e2d0fcfa9d419f",
        },
    ),
    (
        "stg",
        f"{_CAT}/STG",
        "none stated",
        {
            "spurious_token_game_ood3_2.jsonl": "1d0c8a081bd181aaf06f53b339f476016a7107f586d5f59c22ecd7922f780792",
            "spurious_token_game_test3.jsonl": "72b912d14c2b491195f286f89f915cfc1c48150d29841b79967ef61fb405c5b6",
            "spurious_token_game_train3.jsonl": "c166065179765d34bfccdbee0b19866e971242e5a8621a7e05fbdc773c0a013d",
            "spurious_token_game_train3_M.jsonl": "db41826fc1042e0d0abe7f54b2c28daa88245f91dce30e44665eb6a177876ed8",
            "spurious_token_game_train3_S.jsonl": "fc1bf804dc5b00e05d33c14d8a98a908cf9098bbe340b6cad866078278ff7581",
        },
    ),
    (
        "stg_h",
        f"{_CAT}/STG_H",
        "none stated",
        {
            "STG_H_iid_test.jsonl": "97191e68ee079b428627e1dceb26fd29a87c970afe52ffe3db49b7a83e297cad",
            "STG_H_ood_test.jsonl": "109693b0f68b7f1e8e26611352a6dec80eec4e1b42930864fd54b8961c226ef8",
            "STG_H_train.jsonl": "d462968513a44d346c53f056d537874b9a5519b727e5f50e1012359a84c52dcb",
        },
    ),
    (
        "cat_annotated",
        f"{_CAT}/GSM8k",
        "none stated",
        {
            "gsm8k_val.jsonl": "d6b2eb929dc4bfce05da8a50c9a9d1fa7c386f445b4d8d14dca5c93a97f9c009",
        },
    ),
    (
        "cat_annotated",
        f"{_CAT}/MAWPS",
        "none stated",
        {
            "mawps_train.jsonl": "8cf9fbf10b1ad4ebb0687620b69a79f1c1802acee4dee657740f5c2184241d23",
        },
    ),
    (
        "cat_annotated",
        f"{_CAT}/SVAMP",
        "none stated",
        {
            "svamp_train.jsonl": "97534d922145c5f39ffa93a09fe305ee7730ba567b5ddc0df8e564d6daba7928",
        },
    ),
    (
        "sudoku",
        "https://raw.githubusercontent.com/dllm-reasoning/d1/main/dataset",
        "Apache-2.0",
        {
            "4x4_test_sudoku.csv": "ef86c7c28ebef88484d85fda59b3909a7b621241aa1abf36343437dbc4a3ffb6",
        },
    ),
    (
        "sudoku",
        "https://raw.githubusercontent.com/Black-Phoenix/4x4-Sudoku-Dataset"
        "/5be0420fc808e84c24f1031bd2ea181738fa0e3e",
        "none stated",
        {
            "4x4_sudoku_unique_solution.csv": "a1d56589dc9cea0a76561ee114acc61ca8f066ebafe456289b9b12574cf4268b",
        },
    ),
    (
        "gsm8k",
        "https://raw.githubusercontent.com/openai/grade-school-math/master/grade_school_math/data",
        "MIT",
        {
            "test.jsonl": "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
            "train.jsonl": "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465",
        },
    ),
    (
        "math500",
        "https://raw.githubusercontent.com/jincan333/MAS-TTS/ef4c5f0ea78f0effac87e93220396c3f863f4abe"
        "/data/math500",
        "MIT",
        {
            "test.jsonl": "34943b1a3660c7dc63c7bc89b5ecefc0ffdeeee32501c2ad161cdec34d7a4b4c",
        },
    ),
    (
        "sat",
        "https://raw.githubusercontent.com/ruixiangcui/AGIEval/879c5ccd28af0ce82d38a094ee4fdb0663950050"
        "/data/v1",
        "MIT",
        {
            "sat-math.jsonl": "9cde4c0522b6196852a5562db6e72bf8817b4802822db0fc10013d1becdab3c3",
        },
    ),
    (
        "arc",
        "https://raw.githubusercontent.com/AGI-Edgerunners/LLM-Adapters/main/dataset/ARC-Challenge",
        "CC BY-SA 4.0 (AI2)",
        {
            "ARC-Challenge_test_llm_adapters.json": "4a89ce368ae01a71d268d9851686738b2a0a1d84271116bab49a1dd2b48ecad7",
        },
    ),
    (
        "acre",
        f"{_ABSTRACT}/ACRE",
        "MIT",
        {
            "object_dict.json": "3b4bf52b1428ce0dc7ed32fb839616439c6a824cae51ab0885b58a0b0f69c679",
            "raw/Comp/test.json": "0192527e64f12eb19b63f23969a1f934ed53e7481f9d1e3e721a63f513f6681e",
            "raw/Comp/val.json": "a3a26edc2610bb73f3282fd85fd085794d7a77bc21ac446c86df1e2ed2287bb7",
            "raw/IID/test.json": "3f6c7b6da31331c41899f9a0045ae74acfe8729b475754751e8c9e6a272f890c",
            "raw/IID/val.json": "e5c0458147a976abae06da4e6767940f9a5114c68f2f2f059dd17814ce6c74f1",
            "raw/Sys/test.json": "3273bdeae8ed2e9f37fa119b79d0988361e4b2186b4c8a4e12334023162c14a4",
            "raw/Sys/val.json": "10d0ce72ee78710f1f371f43dbbe19dd56763e238541b99ae023485ea2902d51",
        },
    ),
    (
        "raven",
        f"{_ABSTRACT}/RAVEN",
        "MIT",
        {
            "symbolic/center_single_test.jsonl": "3263d66cb192f56d4fb8bcb71dcb5939fb2c315baf9cccf65afaa39f27ef164a",
            "symbolic/center_single_val.jsonl": "dcd84d623289bee86315fdf86d4ad7c68295372203027ddf1d73b73697a3d548",
            "symbolic-open/center_single_test.jsonl": "8793d2cca554896751972b8dec8c02d429405014a0efdaafe01a698dc4a32659",
            "symbolic-open/center_single_val.jsonl": "604937b60d4f3aeb53a546f88723fbc60c657528418ee94637cd254d670cb3b8",
            "text/center_single_test.jsonl": "728d34026f342288397af266a11bc8b39f0ed96b98252c5561db7adb21222cc7",
            "text/center_single_val.jsonl": "cabcd7529a30a02446db0f1fc6034ac5b81ec512efc35bb084aca9645d37de62",
            "text-open/center_single_test.jsonl": "d8fd5e7c2a956c6ac785f67e548f584cc03f097f9321662bf65b80dfd8c4ecd9",
            "text-open/center_single_val.jsonl": "2aaa2bc54d129a570287d961c340a5feb319ec0920c7c2cda10aa0415c7f6fa6",
        },
    ),
    (
        "pvr",
        f"{_ABSTRACT}/PVR/symbolic/IID",
        "MIT",
        {
            "train_complexity0.jsonl": "48b7b227e9971ebd2aac70d540fe996fcaab70f51a9ea7d26ce01672dcfc0045",
            "train_complexity0_4ex.jsonl": "cfa611c48becdefb72fdbb801de4dd44ee2681b11a712be2348ef4f51a4175e9",
        },
    ),
    (
        "arc_agi",
        f"{_ABSTRACT}/ARC/symbolic_hard",
        "MIT",
        {
            "symbolic_hard_test.jsonl": "1d39300ddb0ab18dac11aaf589f9a9b7fcd86b7edb0cfe27ed0e7ddc3718654a",
            "symbolic_hard_train.jsonl": "361dc74fc29d489c99b2c5c42122dfe568d50acc130fdbf5fb960b1e7be0e6ae",
        },
    ),
    (
        "hans",
        "https://raw.githubusercontent.com/tommccoy1/hans/7299f6f657089ce06a0f98e7e81f8d0f5b7741ce",
        "MIT",
        {
            "bert_preds.txt": "47b1810f2462929e16ad9404bde964b2cafc23b76144e03cc5df69dc49e8edc9",
            "berts_of_a_feather_accuracies_by_run.csv": "307a98e15c1e85e81694887f85b99fdc5b6de2b0e3108b989ac4d0ae0fd4a40d",
            "decomp_attn_heur_preds.txt": "ae19439f3bf5425c9cee77dfc88ee73ccfa197820dfe5e21bd2d1ae053ca25aa",
            "esim_heur_preds.txt": "059b973b67ab5a24c3e176cf3005c3b22d56cea6fa19196f3e099f584ff6dd8f",
            "mnli_contradicting_examples": "6bb2dd7cb1f9640e53f1c75b76fef32ed392c4643f6c698292d735cc9ae4e940",
            "spinn_preds_heur.txt": "cc6d7265c36a86f7896540bdaea7ca5899a509f1e4d3c5a178babfc194592af2",
        },
    ),
    (
        "paws",
        "https://raw.githubusercontent.com/uds-lsv/llmft/3acc3894fa4111d9155190a98a147e3e664ff3da"
        "/data/paws_qqp",
        "free use (PAWS); the questions are Quora's",
        {
            "paws_qqp_dev_and_test.tsv": "f65890ccffd7a6432520c009dd3e5c03a96205c80a8f89b04bb58f44c1f35c8f",
        },
    ),
    (
        "snli",
        "https://raw.githubusercontent.com/MJ-Jang/BECEL/HEAD/data/snli",
        "CC BY-SA 4.0 (SNLI)",
        {
            "becel_snli_test.tsv": "c56822451475e7dccf12cd2e68676fa1ccb0ac8c8d9b751c01915003712bb202",
            "becel_snli_validation.tsv": "dc3cdacf1cef526dccd5ca58fb195b66f249c9b15dff0d46ff0d4d138e1e1e4d",
        },
    ),
    (
        "mnli",
        "https://raw.githubusercontent.com/Helsinki-NLP/nli-data-sanity-check"
        "/e9d6e1b8d7c25db1c569fba84af9fd4b325b5846/data/MNLI/Corrupt-Test",
        "MIT",
        {
            "MNLI-NUM.tsv": "45c4843080de7a44bb674216c486aa24ff67460fb795f2c110dc8cd04278238c",
        },
    ),
    (
        "multi30k",
        "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
        "research, non-commercial",
        {
            "test_2016_flickr.de.gz": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
            "test_2016_flickr.en.gz": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
            "test_2017_flickr.de.gz": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
            "test_2017_flickr.en.gz": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
            "train.de.gz": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
            "train.en.gz": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
            "val.de.gz": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
            "val.en.gz": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        },
    ),
)
_MADE = (  # what it is, licence, {name: sha256}: files that lie at no address
    (
        "the output of https://github.com/WellyZhang/ACRE with seed 12345",
        "none stated",
        {
            "acre/raw/IID/train.json": "b38105c0d149738268db9cd355b1487c7d54b4fc820d7c3b5dc27a644aff2083",
        },
    ),
    (
        "the output of https://github.com/WellyZhang/RAVEN with seed 1234, as text",
        "none stated",
        {
            "raven/symbolic/center_single_train.jsonl": "cf62426392f6584bbbebaa99381e1ead5852faa9def56bdd8685c0a907d464f6",
            "raven/symbolic/in_center_single_out_center_single.jsonl": "2e97eec8e6b63e084967c3c8fcccfa194672c7b31782c8df5d75c43c8f0c9a41",
            "raven/text/center_single_train.jsonl": "8e614a6174e668f5095a1bbd50ce8a57bf8458621ffef89ef079066af12e58ea",
            "raven/text/in_center_single_out_center_single.jsonl": "83b21ebffde4261399a90ff0d50be8ecd7d7da3140b21457ab81a76fc086ad8e",
        },
    ),
    (
        "the RAVEN sets of https://github.com/openai/evals with their instruction put back",
        "none stated",
        {
            "raven/symbolic/distribute_four.jsonl": "8b2b0954bae885007fdc012362af24063638d1a5e46d8e17fa10b750aedabbb9",
            "raven/text/distribute_four.jsonl": "ebadb66566c9d88754f9e2e75460de7c65dd2b5c995ab53345e1ae4bff1e5624",
        },
    ),
)
_AT_HOME = {  # names of files whose home has another path
    "hans/berts_of_a_feather_accuracies_by_run.csv": "berts_of_a_feather/berts_of_a_feather_accuracies_by_run.csv",
    "paws/paws_qqp_dev_and_test.tsv": "dev_and_test.tsv",
    "snli/becel_snli_test.tsv": "test.tsv",
    "snli/becel_snli_validation.tsv": "validation.tsv",
    "arc/ARC-Challenge_test_llm_adapters.json": "test.json",
    "arc_agi/symbolic_hard_test.jsonl": "test.jsonl",
    "arc_agi/symbolic_hard_train.jsonl": "train.jsonl",
}


def _public(folder: str, home: str, path: str, digest: str, licence: str) -> File:
    name = f"{folder}/{path.removesuffix('.gz')}"
    return File(name, f"{home}/{_AT_HOME.get(name, path)}", digest, licence)


_FILES = (
    *(
        _public(folder, home, path, digest, licence)
        for folder, home, licence, rows in _SOURCES
        for path, digest in rows.items()
    ),
    *(
        File(name, "", digest, licence, made)
        for made, licence, rows in _MADE
        for name, digest in rows.items()
    ),
)
REGISTRY = {file.name: file for file in _FILES}
