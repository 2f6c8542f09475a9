"""`shardkit padding`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import Whole, look_options, max_tokens_option, print_result, train_split_option
from shardkit.prepare.report.padding import PaddingConfig, run


@click.command("padding")
@click.argument("dataset", type=click.Path(path_type=Path), required=False)
@click.option("--reference", is_flag=True, help="Instead of a dataset the sixteen samples of the published report.")
@click.option("--compat", is_flag=True,
              help="The padded rows as the first program printed them, its two wrong denominators with them.")  # fmt: skip
@click.option("--batch-size", type=Whole(min=1), default=16, show_default=True, metavar="B",
              help="Samples of a padded batch.")  # fmt: skip
@train_split_option
@max_tokens_option
@look_options
def command(*, dataset: Path | None, reference: bool, as_json: bool, **given: Any) -> None:
    """Say what padded batches of a dataset's sequences waste, beside packs: text, images, tiles, attention masks, bytes.

    \b
    shardkit padding work/tokens
    shardkit padding --reference --compat
    """
    if (dataset is None) != reference:
        raise click.UsageError("give a dataset or --reference" + (", not both" if reference else ""))
    report = run(PaddingConfig(dataset=dataset, **given))
    print_result(report, as_json=as_json, text="\n".join(_lines(report)))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    form = ", as first printed" if report["compat"] else ""
    yield f"{report['num_batches']} padded batches of {report['batch_size']}, {report['num_samples']} samples{form}"
    yield f"{'':22}{'useful':>18}{'total':>18}{'padding':>18}{'%':>9}"
    for row in report["padded"]:
        yield f"{row['name']:22}{row['useful']:>18,}{row['total']:>18,}{row['padding']:>18,}{_percent(row['share'])}"
    if report["tiles"] is None:
        has_images = any(row["name"] == "images" and row["useful"] for row in report["padded"])
        yield f"no tiles: {'the images were processed otherwise' if has_images else 'there are no images'}"
    else:
        yield f"bytes to the device {report['padded_bytes']:,} (float32 pixels, a byte a mask element, int64 ids and labels)"
    packed = report["packed"]
    if packed is None:
        ours = report["packed_bytes"]
        yield f"the same end to end, a byte a pixel: {ours:,}, {report['padded_bytes'] / ours:.1f} times fewer"
        return
    yield f"\npacks of at most {packed['max_tokens']} tokens: {packed['packs']}"
    yield f"{'text':76}{_percent(packed['text'])}"
    for name in ("images", "tiles", "mask"):
        yield f"{'padded ' + name:58}{packed[name]:>18}"
    yield f"supervised tokens {packed['supervised_tokens']:,}"
    yield f"bytes to the device {packed['bytes']:,}, bounds of the masks made there {packed['mask_bytes']:,}"
    if packed["pixel_fill"] is not None:
        yield f"pixels that show an image {_percent(packed['pixel_fill']).strip()} % of those processed"
    for name in ("self", "cross"):
        if packed.get(f"{name}_blocks"):
            allowed, blocks = packed[f"{name}_allowed"], packed[f"{name}_blocks"]
            yield (
                f"{name}-attention: {allowed:,} allowed elements, {_percent(packed[f'{name}_fill']).strip()} % "
                f"of the {blocks:,} in blocks of 128 x 128"
            )


def _percent(share: float | None) -> str:
    return f"{'-':>9}" if share is None else f"{100 * share:>9.2f}"
