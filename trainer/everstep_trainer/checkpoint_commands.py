"""`everstep checkpoints export | import`: the commands on checkpoints that need torch."""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from everstep_checkpoint.errors import UnusableRootError
from everstep_checkpoint.keeping import named
from everstep_checkpoint.storage import Storage, storage_at
from everstep_contract.errors import EverstepError
from everstep_contract.identity import JobKey

ROOT_VARIABLE: Final = "EVERSTEP_CHECKPOINT_ROOT"
EXIT_FAILED: Final = 1


def export_checkpoint(argv: list[str]) -> int:
    """Take a checkpoint out, verified: as a DCP folder, a safetensors file, or a torch file.

    dcp: a folder that stock torch.distributed.checkpoint reads (HuggingFaceStorageReader).
    safetensors: one file with all tensors under their names. torch: torch.save of the nested
    state, which is a pickle: made because you ask for it, never read by Everstep.
    """
    parser = _parser("export", export_checkpoint)
    parser.add_argument("name", help="as `everstep checkpoints list` has it")
    parser.add_argument("target", type=Path, help="file or folder to make; must not exist")
    parser.add_argument("--to", required=True, choices=("dcp", "safetensors", "torch"))
    parser.add_argument("--job", help="NAMESPACE/NAME or uid, where several have the name")
    parser.add_argument("--object", help="only this tracked object, e.g. model, as it names itself")
    arguments = parser.parse_args(argv)
    if arguments.object and arguments.to == "dcp":
        parser.error("--object goes with safetensors and torch: dcp copies shards as they lie")
    return _run("export", _export, arguments)


def import_checkpoint(argv: list[str]) -> int:
    """Make a checkpoint of safetensors files, which a job can start from; pickles are refused.

    A file that Everstep exported whole brings all of the state back. One from elsewhere holds one
    object's tensors: --object says what the job tracks it as.
    """
    parser = _parser("import", import_checkpoint)
    parser.add_argument("source", type=Path, help="a safetensors file, or a folder of them")
    parser.add_argument("--job", required=True, type=_job, help="NAMESPACE/NAME of the job")
    parser.add_argument("--uid", required=True, help="the job's uid: the lineage to begin")
    parser.add_argument("--step", required=True, type=int, help="completed optimizer steps in it")
    parser.add_argument("--object", help="what the job tracks these tensors as, e.g. model")
    return _run("import", _import, parser.parse_args(argv))


def _parser(command: str, described: Callable[[list[str]], int]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"everstep checkpoints {command}",
        description=described.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root = os.environ.get(ROOT_VARIABLE)
    parser.add_argument(
        "--root",
        type=_root,
        default=root,
        required=root is None,
        help=f"folder or URL below which all jobs' checkpoints lie [env: {ROOT_VARIABLE}]",
    )
    return parser


def _root(text: str) -> str:
    try:
        storage_at(text)
    except UnusableRootError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _job(text: str) -> JobKey:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not like NAMESPACE/NAME")
    return JobKey(namespace=namespace, name=name)


def _run(
    command: str, work: Callable[[argparse.Namespace], str], arguments: argparse.Namespace
) -> int:
    try:
        sys.stdout.write(f"{work(arguments)}\n")
    except (EverstepError, OSError) as error:
        sys.stderr.write(f"everstep checkpoints {command}: {error}\n")
        return EXIT_FAILED
    return 0


def _export(arguments: argparse.Namespace) -> str:
    from everstep_trainer import exporting

    storage = Storage(arguments.root)
    manifest = named(storage.listed()[0], arguments.name, arguments.job).manifest
    match arguments.to:
        case "dcp":
            exporting.export_dcp(storage, manifest, arguments.target)
        case "safetensors":
            exporting.export_safetensors(storage, manifest, arguments.target, arguments.object)
        case _:
            exporting.export_torch(storage, manifest, arguments.target, arguments.object)
    return f"{manifest.checkpoint} of {manifest.job}: verified, written to {arguments.target}"


def _import(arguments: argparse.Namespace) -> str:
    from everstep_trainer.importing import Wanted, import_checkpoint

    wanted = Wanted(arguments.job, arguments.uid, arguments.step, arguments.object)
    storage = Storage(arguments.root)
    manifest = import_checkpoint(storage, arguments.source, wanted, datetime.now(UTC))
    return f"{manifest.checkpoint} of {manifest.job}: committed and verified"


if __name__ == "__main__":
    COMMANDS = {"export": export_checkpoint, "import": import_checkpoint}
    sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
