"""Makes the committed checkpoints, smaller models of the same kinds and by the same code as make_models.py.

    python make_fixtures.py [ROOT]    ROOT is the repository unless given

They are internal/vectors/real/NAME, with VERSIONS.json beside them, and cmd/ckpt/sample, the demo's checkpoint.
Everything else at those two places goes. The bytes depend on the pinned packages and the seed alone.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import make_models
from make_models import IGNORE, SEED, VERSIONS, dense, moe, quantize, save, vlm


def real(out, work):
    # 128 is the least that a scheme with blocks or groups of 128 takes; the others can be half as wide.
    wide = save(work / "wide", dense(intermediate=128, layers=1, vocab=32), "150KB")
    slim = save(work / "slim", dense(hidden=64, intermediate=128, vocab=32), "90KB")
    seeing = save(work / "seeing", vlm(vision=32, depth=1, hidden=64, intermediate=128, layers=1, vocab=32), "120KB")
    quantize(slim, out / "dense-nvfp4a16", "NVFP4A16", IGNORE["dense"])
    quantize(wide, out / "dense-fp8_block", "FP8_BLOCK", IGNORE["dense"])
    quantize(wide, out / "dense-w8a16", "W8A16", IGNORE["dense"])
    quantize(seeing, out / "vlm-nvfp4a16", "NVFP4A16", IGNORE["vlm"])
    save(out / "moe", moe(expert=32, hidden=64, intermediate=128, layers=1, vocab=32), "60KB")
    versions = dict(packages=VERSIONS, script="internal/interop/make_fixtures.py", seed=SEED)
    (out / "VERSIONS.json").write_text(json.dumps(versions, indent=2) + "\n")


def sample(out, work):
    # Three layers, so that a fault in one stands out from its neighbours.
    source = save(work / "demo", dense(hidden=64, intermediate=128, layers=3, vocab=64), "130KB")
    quantize(source, out, "NVFP4A16", IGNORE["dense"])


def main(root):
    make_models.quiet()
    for make, place in (real, "internal/vectors/real"), (sample, "cmd/ckpt/sample"):
        with tempfile.TemporaryDirectory() as work:
            shutil.rmtree(root / place, ignore_errors=True)
            (root / place).mkdir(parents=True)
            make(root / place, Path(work))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit("usage: make_fixtures.py [ROOT]")
    main(Path(sys.argv[1]) if len(sys.argv) == 2 else Path(__file__).resolve().parents[2])
