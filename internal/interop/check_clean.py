"""Counts NaN and Inf with torch: the independent truth that the Go scanner is compared with.

    python check_clean.py DIR...    one JSON line for each float tensor of each checkpoint
"""

import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open


def count(tensor):
    """NaN and Inf of a float tensor."""
    if tensor.dtype == torch.float8_e4m3fn:
        # Read as bytes, so that no conversion of torch's stands between the file and the count; it has no Inf.
        return int(((tensor.view(torch.uint8) & 0x7F) == 0x7F).sum()), 0
    if tensor.dtype == torch.float4_e2m1fn_x2:
        return 0, 0  # has neither, and torch converts it to nothing
    # The other 8-bit floats have no isnan of their own. Every value of theirs is exact in F32.
    values = tensor.float() if tensor.element_size() == 1 else tensor
    return int(values.isnan().sum()), int(values.isinf().sum())


def main(models):
    for model in models:
        files = sorted(Path(model).glob("*.safetensors"))
        if not files:
            sys.exit(f"check_clean: there is no *.safetensors file in {model}")
        for file in files:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():
                    tensor = opened.get_tensor(name)
                    if not tensor.is_floating_point():
                        continue
                    nan, inf = count(tensor)
                    dtype = opened.get_slice(name).get_dtype()
                    line = dict(model=model, file=file.name, tensor=name, dtype=dtype, nan=nan, inf=inf)
                    print(json.dumps(line))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: check_clean.py DIR...")
    main(sys.argv[1:])
