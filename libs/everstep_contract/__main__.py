"""Write proto/ from the models, or say how it differs from them."""

import argparse
import shutil
import sys
from pathlib import Path

from everstep_contract.generate import RELEASED, complaints, generated_files, released


def main() -> int:
    """Write into a folder, or with --check only compare; 1 when something is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m everstep_contract", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("proto"))
    parser.add_argument("--check", action="store_true", help="write nothing, complain of drift")
    parser.add_argument("--release", action="store_true", help="freeze v1 as it is now")
    arguments = parser.parse_args()
    if not arguments.check:
        _write(arguments.folder, release=arguments.release)
    found = complaints(arguments.folder)
    for complaint in found:
        sys.stderr.write(f"{complaint}\n")
    return 1 if found else 0


def _write(folder: Path, *, release: bool) -> None:
    for generated in ("schemas", "examples"):
        shutil.rmtree(folder / generated, ignore_errors=True)
    files = generated_files()
    if release:
        files[RELEASED] = released()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
