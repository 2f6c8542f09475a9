"""Which files a run reads, from files, folders and mixtures of both."""

from __future__ import annotations

import gzip

import orjson
import pytest

from shardkit.errors import SourceError
from shardkit.prepare.import_.run import IMPORTS, ImportConfig
from shardkit.prepare.import_.run import run as import_set
from shardkit.prepare.ingest import IngestConfig, resolved, run
from shardkit.prepare.ingest.containers.lines import are_values
from shardkit.prepare.ingest.formats import SOURCES
from shardkit.prepare.ingest.listing import Listing, list_inputs
from tests.prepare.ingest.builders import config, picture, tar
from tests.prepare.ingest.runs import Ingested


def listed(kind: str, *paths) -> Listing:
    source = SOURCES[kind]
    return list_inputs(config(format=kind, paths=paths), source.containers, source.labels)


def make(folder, **files: bytes):
    for name, data in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_the_input_root_is_the_deepest_folder_of_all_paths(tmp_path):
    make(tmp_path, a__x_jsonl=b"{}", a__b__y_jsonl=b"{}", c__z_jsonl=b"{}")
    assert listed("rows", tmp_path / "a" / "x.jsonl").roots.input_root == str(tmp_path / "a")
    assert listed("rows", tmp_path / "a").names == ["b/y.jsonl", "x.jsonl"]
    both = listed("rows", tmp_path / "c" / "z.jsonl", tmp_path / "a")
    assert both.roots.input_root == str(tmp_path)
    assert both.names == ["a/b/y.jsonl", "a/x.jsonl", "c/z.jsonl"]
    assert listed("rows", tmp_path / "a", tmp_path / "a" / "x.jsonl", tmp_path / "a").names == ["b/y.jsonl", "x.jsonl"]


def kind_of(listing: Listing) -> set[str]:
    return {kind for kind, _ in listing.inputs}


def test_a_folder_is_read_as_what_it_mostly_is(tmp_path):
    make(tmp_path, tars__0_tar=tar([]), tars__side_parquet=b"PAR1", tars__0_jpg=picture(), tars__0_txt=b"t")
    assert kind_of(listed("caption", tmp_path / "tars")) == {"tar"}
    assert listed("caption", tmp_path / "tars").ignored == 3
    make(tmp_path, table__pairs_csv=b"image,caption\n", table__img__1_png=picture())
    assert kind_of(listed("caption", tmp_path / "table")) == {"table"}
    make(tmp_path, folder__1_png=picture(), folder__1_txt=b"t", folder__side_parquet=b"PAR1", folder__notes_md=b"")
    assert kind_of(listed("caption", tmp_path / "folder")) == {"files"}
    assert [file.name for file in listed("caption", tmp_path / "folder").files] == ["1.png", "1.txt"]
    assert listed("caption", tmp_path / "folder").ignored == 2


def test_files_of_pairs_may_be_named_one_by_one(tmp_path):
    make(tmp_path, a_png=picture(), a_gt_txt=b"t", a_yml=b"x", b_png=picture())
    paths = [tmp_path / name for name in ("b.png", "a.yml", "a.gt.txt", "a.png")]
    one_by_one = listed("ocr", *paths)
    assert [file.name for file in one_by_one.files] == ["a.gt.txt", "a.png", "b.png"]
    assert one_by_one.files == listed("ocr", tmp_path).files
    assert one_by_one.names == listed("ocr", tmp_path).names


def test_hidden_files_are_passed_over(tmp_path):
    make(tmp_path, a_jsonl=b"{}")
    (tmp_path / ".hidden.jsonl").write_bytes(b"{}")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "b.jsonl").write_bytes(b"{}")
    assert listed("rows", tmp_path).names == ["a.jsonl"]


def test_a_file_without_a_known_name_is_told_by_its_content(tmp_path):
    make(tmp_path, rows_txt=b'\xef\xbb\xbf {"text": "x"}', shard_dat=tar([("a.jpg", b"x")]), other_bin=b"?")
    assert kind_of(listed("rows", tmp_path / "rows.txt")) == {"jsonl"}
    assert kind_of(listed("webdataset", tmp_path / "shard.dat")) == {"tar"}
    assert kind_of(listed("caption", tmp_path / "shard.dat")) == {"tar"}
    (tmp_path / "packed").write_bytes(gzip.compress(tar([("a.jpg", b"x")])))
    assert kind_of(listed("caption", tmp_path / "packed")) == {"tar"}
    with pytest.raises(SourceError, match="no use for a file"):
        listed("rows", tmp_path / "other.bin")


def test_a_path_that_is_not_there_or_holds_nothing_is_refused(tmp_path):
    with pytest.raises(SourceError, match="nowhere"):
        listed("rows", tmp_path / "nowhere")
    with pytest.raises(SourceError, match="nothing here that ocr reads"):
        listed("ocr", tmp_path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    make(tmp_path, outside_jsonl=b"{}", inputs__a_jsonl=b"{}")
    (tmp_path / "inputs" / "b.jsonl").symlink_to(tmp_path / "outside.jsonl")
    with pytest.raises(SourceError, match="leads out"):
        listed("rows", tmp_path / "inputs")
    assert listed("rows", tmp_path / "inputs" / "b.jsonl").names == ["outside.jsonl"], "a named link is followed"


def test_json_lines_are_known_whatever_they_are_called(tmp_path):
    rows = b'{"image": "a.png", "caption": "one"}\n{"image": "a.png", "caption": "two"}\n'
    make(tmp_path / "in", a_png=picture(), data_json=rows)
    for number, path in enumerate((tmp_path / "in", tmp_path / "in" / "data.json")):
        got = Ingested(tmp_path / f"out{number}", "caption", path)
        assert {position: example.text for position, example in got.rows.items()} == {"1": "one", "2": "two"}
    assert resolved(IngestConfig(format="auto", paths=(tmp_path / "in",), output=None)).format == "caption"
    make(tmp_path / "packed", data_json_gz=gzip.compress(rows))
    assert resolved(IngestConfig(format="auto", paths=(tmp_path / "packed",), output=None)).format == "caption"


@pytest.mark.parametrize(
    ("data", "is_lines"),
    [
        (b'{"a": 1}\n{"b": 2}\n', True),
        (b'\xef\xbb\xbf\n{"a": 1}\r\n{"b": 2}', True),
        (b'{"a": 1}\n{broken', True),
        (b'{"a": 1}\n', False),
        (b'{"a": 1}', False),
        (b'{\n"a": {\n}}', False),
        (b'{"a":\n{"b": 2}}', False),
        (b'[{"a": 1}]\n[{"b": 2}]', False),
        (b"", False),
    ],
)
def test_a_document_is_not_taken_for_lines(data, is_lines):
    assert are_values(data) == is_lines


@pytest.mark.parametrize("kind", ["ocr", "alto", "caption", "paddleocr"])
def test_where_only_an_archive_is_found_the_next_step_is_to_unpack_it(tmp_path, kind):
    make(tmp_path, in__pages_zip=b"PK\3\4", in__notes_pdf=b"%PDF")
    for path in (tmp_path / "in", tmp_path / "in" / "pages.zip"):
        with pytest.raises(SourceError) as error:
            listed(kind, path)
        assert error.value.hint == "unpack pages.zip and give the folder of its files"
        with pytest.raises(SourceError) as error:
            resolved(IngestConfig(format="auto", paths=(path,), output=None))
        assert error.value.hint == "unpack pages.zip and give the folder of its files"


def test_a_list_in_wide_characters_is_met_and_refused_by_name(tmp_path):
    make(tmp_path, in__rec_txt="a.png\thello\n".encode("utf-16"), in__a_png=picture())
    with pytest.raises(SourceError, match=r"rec\.txt.*UTF-16"):
        Ingested(tmp_path / "out", "auto", tmp_path / "in")


def test_what_a_model_read_is_no_label_beside_the_ground_truth(tmp_path):
    make(
        tmp_path, a_png=b"x", a_gt_txt=b"x", a_pred_txt=b"x", b_pred_png=b"x", b_pred_txt=b"x", b_gt_txt=b"x", c_png=b"x",
        c_pred_txt=b"x",
    )  # fmt: skip
    got = listed("ocr", tmp_path)
    assert [file.name for file in got.files] == [
        "a.gt.txt", "a.png", "b.gt.txt", "b.pred.png", "b.pred.txt", "c.png", "c.pred.txt",
    ]  # fmt: skip
    assert got.ignored == 1
    texts = [file.name for file in listed("text", tmp_path).files if file.name.endswith(".txt")]
    assert len(texts) == 5, "texts of a corpus may be called anything"


def test_a_dataset_is_no_dump(tmp_path):
    made = tmp_path / "made"
    make(
        tmp_path,
        in__a_jsonl=b'{"text": "a"}\n',
        other__manifest_json=b'{"dataset_id": "x"}',
        other__b_jsonl=b'{"text": "b"}\n',
    )
    run(config(format="text", paths=(tmp_path / "in",), output=made))
    (tmp_path / "link").symlink_to(made)
    for kind in SOURCES:
        for paths in ([made], [tmp_path / "in", tmp_path / "link"]):
            with pytest.raises(SourceError, match="this is a dataset, not a dump") as error:
                run(config(format=kind, paths=tuple(paths), output=tmp_path / "out"))
            assert error.value.where == str(paths[-1])
            assert "shardkit dedup" in error.value.hint
    with pytest.raises(SourceError, match="this is a dataset, not a dump"):
        resolved(config(format="auto", paths=(made,)))
    for kind in IMPORTS:
        with pytest.raises(SourceError, match="this is a dataset, not a dump"):
            import_set(ImportConfig(kind=kind, paths=(made,)))
    manifest = orjson.loads((made / "manifest.json").read_bytes())
    (made / "manifest.json").write_bytes(orjson.dumps({**manifest, "schema_version": 10**6}))
    with pytest.raises(SourceError, match="this is a dataset, not a dump"):
        listed("text", made)
    assert not (tmp_path / "out").exists()
    assert listed("text", tmp_path / "other").names == ["b.jsonl"], "other programs have a manifest.json, too"
