"""Makes tiny checkpoints with the packages that write the real ones, for the interop tests to read.

    python make_models.py OUT

Every model is a real class of transformers with random weights, saved by save_pretrained; the quantized copies are
made by llmcompressor's model_free_ptq; hub/ is a Hugging Face cache. The weights depend on nothing but tensor names
and shapes, so two runs write the same bytes. Nothing is downloaded. One line is printed for each directory made.
"""

import importlib.metadata
import os
import shutil
import sys
import zlib
from pathlib import Path

# What this script was written and checked for; any other version may write another layout.
VERSIONS = {
    "compressed-tensors": "0.19.0",
    "huggingface_hub": "1.33.0",
    "llmcompressor": "0.14.0.1",
    "numpy": "2.4.6",
    "safetensors": "0.8.0",
    "torch": "2.14.0",
    "transformers": "5.17.0",
}
for package, wanted in VERSIONS.items():
    found = importlib.metadata.version(package)
    if found != wanted:
        sys.exit(f"make_models: {package} is {found}, but this script was written for {wanted}")

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TQDM_DISABLE"] = "1"

import numpy
import torch
from huggingface_hub import _local_folder, file_download, snapshot_download
from huggingface_hub.utils import _shared_blobs, sha
from llmcompressor import model_free_ptq
from loguru import logger
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3VLConfig,
)

SEED = 1

# What a user must keep out of model_free_ptq: it sees names, not classes, and spares only modules ending in "norm".
IGNORE = {
    "dense": ["lm_head", "re:.*embed_tokens$"],
    "moe": ["lm_head", "re:.*embed_tokens$", "re:.*mlp.gate$"],
    "hybrid": ["lm_head", "re:.*embed_tokens$", "re:.*linear_attn.conv1d$", "re:.*linear_attn.in_proj_[ab]$"],
    "vlm": ["lm_head", "re:.*embed_tokens$", "re:.*visual.*"],
}


def text(hidden=128, intermediate=256, layers=2, vocab=64, **more):
    """The keys that every text config shares. The block and group of 128 of two schemes set the default sizes."""
    return dict(
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        head_dim=32,
        vocab_size=vocab,
        max_position_embeddings=256,
        tie_word_embeddings=False,
    ) | more


def dense(**more):
    return Qwen3Config(**text(**more))


def moe(expert=64, **more):
    return Qwen3MoeConfig(**text(moe_intermediate_size=expert, num_experts=4, num_experts_per_tok=2, **more))


def hybrid(**more):
    return Qwen3_5TextConfig(
        **text(
            layer_types=["linear_attention", "full_attention"],
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=32,
            linear_value_head_dim=32,
            **more,
        )
    )


def vlm(vision=64, depth=2, **more):
    keys = text(**more)
    return Qwen3VLConfig(
        text_config=keys | {"rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [6, 5, 5]}},
        vision_config=dict(
            depth=depth,
            hidden_size=vision,
            intermediate_size=2 * vision,
            num_heads=2,
            out_hidden_size=keys["hidden_size"],
            num_position_embeddings=16,
            patch_size=4,
            deepstack_visual_indexes=[0],
        ),
        # The defaults lie outside the tiny vocabulary.
        image_token_id=1,
        video_token_id=2,
        vision_start_token_id=3,
        vision_end_token_id=4,
        tie_word_embeddings=False,
    )


def save(out, config, shard_size):
    """Writes a model of this config in BF16, in as many shards as shard_size asks for."""
    auto = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    torch.manual_seed(SEED)
    model = auto.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights(name, parameter.shape))
    model.save_pretrained(out, max_shard_size=shard_size)
    return done(out)


def weights(name, shape):
    """Random values from the name alone: torch's own initialisation changes with the processor's vector unit."""
    random = numpy.random.Generator(numpy.random.PCG64([SEED, zlib.crc32(name.encode())]))
    values = random.standard_normal(tuple(shape), dtype=numpy.float32)
    if len(shape) < 2:
        return torch.from_numpy(1 + values / 8)
    # Rows of different size, as training leaves them: with equal ones every scale would come out the same.
    sizes = 2.0 ** random.integers(-8, -3, size=(shape[-2], 1))
    return torch.from_numpy(values * sizes.astype(numpy.float32))


def quiet():
    """Keeps model_free_ptq from telling every step."""
    logger.remove()


def quantize(source, out, scheme, ignore):
    model_free_ptq(model_stub=str(source), save_directory=str(out), scheme=scheme, ignore=ignore, device="cpu")
    return done(out)


def hub_cache(source, cache, repo, shared=False):
    """Lays source out as a download of repo leaves it, with huggingface_hub's own functions where they need no network.

    shared puts the weights into the store that all repositories of a cache share; a blob is then itself a link.
    """
    folder = cache / file_download.repo_folder_name(repo_id=repo, repo_type="model")
    commit = sha.git_hash(repo.encode())  # a hub commit is 40 hex digits; any will do
    (folder / "blobs").mkdir(parents=True)
    _local_folder._create_cachedir_tag(cache)
    file_download._cache_commit_hash_for_specific_revision(str(folder), "main", commit)
    for file in sorted(source.iterdir()):
        data = file.read_bytes()
        weight_file = file.suffix == ".safetensors"
        # Weight files are stored under their sha256, small files under their git hash.
        blob = str(folder / "blobs" / (sha.sha256(data).hexdigest() if weight_file else sha.git_hash(data)))
        shutil.copyfile(file, blob)
        if weight_file and shared:
            # The store is keyed by the hub's chunk hash, which only its uploader computes: this is a stand-in.
            key = sha.sha256(b"chunks of " + data).hexdigest()
            if not _shared_blobs.publish_blob_to_shared_store(
                blob_path=blob, xet_hash=key, cache_dir=cache, expected_size=len(data)
            ):
                sys.exit(f"make_models: huggingface_hub did not take {file} into its shared store")
        pointer = file_download._get_pointer_path(str(folder), commit, file.name)
        os.makedirs(os.path.dirname(pointer), exist_ok=True)
        file_download._create_symlink(blob, pointer)

    # The proof that it is a cache: huggingface_hub finds the model in it without a network.
    snapshot = snapshot_download(repo, cache_dir=cache, local_files_only=True)
    if Path(snapshot).resolve() != (folder / "snapshots" / commit).resolve():
        sys.exit(f"make_models: huggingface_hub resolves {repo} to {snapshot}")
    return done(cache)


def done(out):
    sizes = {file.resolve(): file.stat().st_size for file in out.rglob("*.safetensors")}
    print(f"{out.name}: {len(sizes)} weight files, {sum(sizes.values())} bytes", flush=True)
    return out


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        sys.exit(f"make_models: {out} is not empty")
    quiet()
    made = {
        # Small enough that a gate and its up, and a q and k and their v, lie in different shards.
        "dense": save(out / "dense", dense(), "190KB"),
        "moe": save(out / "moe", moe(), "240KB"),
        "hybrid": save(out / "hybrid", hybrid(), "240KB"),
        "vlm": save(out / "vlm", vlm(), "450KB"),
    }
    save(out / "single", dense(), "1GB")
    save(out / "tied", dense(tie_word_embeddings=True), "190KB")
    for model, scheme in [
        ("dense", "NVFP4A16"),
        ("dense", "FP8_BLOCK"),
        ("dense", "W8A16"),
        ("moe", "NVFP4A16"),
        ("hybrid", "FP8_BLOCK"),
        ("vlm", "NVFP4A16"),
    ]:
        quantize(made[model], out / f"{model}-{scheme.lower()}", scheme, IGNORE[model])
    hub_cache(made["dense"], out / "hub", "ckpt-interop/dense")
    hub_cache(made["dense"], out / "hub-shared", "ckpt-interop/dense", shared=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_models.py OUT")
    main(Path(sys.argv[1]))
