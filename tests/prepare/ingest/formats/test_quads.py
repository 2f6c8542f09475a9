"""Quads of ICDAR and SROIE: corners, then the text with all its commas."""

from __future__ import annotations

from collections import Counter

import pytest

from shardkit.prepare.ingest import IngestConfig, resolved
from shardkit.prepare.ingest.formats import quads
from shardkit.prepare.ingest.formats.ocr_label import from_text
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import picture
from tests.prepare.ingest.runs import Ingested


def read(text: str) -> tuple[str, list[tuple[str | None, tuple[float, ...]]], Counter[str]]:
    changes: Counter[str] = Counter()
    label = quads.read(text.encode("utf-8-sig"), changes)
    return label.text, [(item.text, item.polygon) for item in label.layout or ()], changes


def test_commas_belong_to_the_text_and_a_mark_of_illegible_text_is_none():
    text, lines, changes = read("1,2,3,4,5,6,7,8,12, JALAN 7/4,X\r\n\r\n10,20,30,20,30,40,10,40,###\r\n")
    assert text == "12, JALAN 7/4,X"
    assert lines == [
        ("12, JALAN 7/4,X", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)),
        (None, (10.0, 20.0, 30.0, 20.0, 30.0, 40.0, 10.0, 40.0)),
    ]
    assert changes == {"byte_order_mark": 1, "crlf_text": 1, "illegible_text": 1}


def test_two_corners_and_a_text_in_quotation_marks():
    text, lines, _ = read('38, 43, 920, 215, "Tired, very"\n275, 264, 665, 450, "kills"\n')
    assert text == "Tired, very\nkills"
    assert lines[0] == ("Tired, very", (38.0, 43.0, 920.0, 215.0))


def test_more_corners_stand_before_the_mark_of_ctw1500():
    text, lines, changes = read("1,2,3,1,5,2,5,4,3,5,1,4,####Oh, 7,5\n1,2,3,2,3,4,1,4,#######\n1,2,3,2,3,4,####\n")
    assert text == "Oh, 7,5"
    assert lines == [
        ("Oh, 7,5", (1.0, 2.0, 3.0, 1.0, 5.0, 2.0, 5.0, 4.0, 3.0, 5.0, 1.0, 4.0)),
        (None, (1.0, 2.0, 3.0, 2.0, 3.0, 4.0, 1.0, 4.0)),
        (None, (1.0, 2.0, 3.0, 2.0, 3.0, 4.0)),
    ]
    assert changes == {"byte_order_mark": 1, "illegible_text": 1, "line_without_text": 1}
    assert read("1,2,3,4,5,6,7,8,####a\n1,2,3,4,5,6,7,8,b\n")[0] == "####a\nb"


def test_a_script_is_one_only_where_every_line_names_one():
    quad = "1,2,3,4,5,6,7,8,"
    assert read(f"{quad}Latin,bon\n{quad}Korean,밥\n")[0] == "bon\n밥"
    assert read(f"{quad}Latin,bon\n{quad}jour\n")[0] == "Latin,bon\njour"


@pytest.mark.parametrize(
    "line", ["words", "1,2,3,4,5,6,7,x,text", "1,2,3", "1,2,3,4,5,6,7,nan,a", "1,2,3,4,two corners"]
)
def test_a_line_of_another_form_than_the_first_excludes_the_page(line):
    with pytest.raises(Bad, match="line 2"):
        read(f"1,2,3,4,5,6,7,8,fine\n{line}\n")


def test_a_broken_quad_is_not_taken_for_two_corners():
    with pytest.raises(Bad, match="line 1"):
        read("1,2,3,4,5,6,7,x,text\n")


@pytest.mark.parametrize("kind", ["icdar", "ocr"])
def test_label_names_begin_with_gt_as_icdar_has_them(tmp_path, kind):
    for folder, name, data in (
        ("imgs", "img_1.jpg", picture(0, (40, 30), "JPEG")),
        ("gt", "gt_img_1.txt", "\ufeff1,1,20,1,20,9,1,9,Genaxis\n2,12,20,12,20,18,2,18,###\n".encode()),
    ):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / name).write_bytes(data)
    got = Ingested(tmp_path / "out", kind, tmp_path / "in")
    assert got.layout("img_1") == [
        ("line", "Genaxis", (1.0, 1.0, 20.0, 1.0, 20.0, 9.0, 1.0, 9.0), None, 0),
        ("line", None, (2.0, 12.0, 20.0, 12.0, 20.0, 18.0, 2.0, 18.0), None, 1),
    ]
    assert got.rows["img_1"].group == "imgs/img_1.jpg"


@pytest.mark.parametrize("kind", ["sroie", "ocr"])
def test_the_real_receipts(shared, tmp_path, kind):
    got = Ingested(tmp_path / "out", kind, shared / "data" / "ocr_receipts_sroie")
    assert got.counts == (26, 26, 0)
    assert got.num_items("line") == 1089
    assert got.metadata("055")["company"] == "UNIHAKKA INTERNATIONAL SDN BHD"
    assert got.rows["055"].text.split("\n")[3] == "12, JALAN TAMPOI 7/4,KAWASAN PERINDUSTRIAN"
    assert len({row.group for row in got.rows.values()}) == 26


def test_two_corners_without_commas():
    text, lines, _ = read('158 128 411 181 "Foot, path"\n443  128 501 169 "To"\n')
    assert text == "Foot, path\nTo"
    assert lines[0] == ("Foot, path", (158.0, 128.0, 411.0, 181.0))


def test_many_corners_are_no_text_where_every_line_has_many():
    six = "1,2,3,1,5,2,5,4,3,5,1,4"
    text, lines, _ = read(f"{six},Oh, well\n{six},3,2,7up\n{six},500\n")
    assert text == "Oh, well\n7up\n500"
    assert [len(points) for _, points in lines] == [12, 14, 12]
    # A receipt may begin a text with numbers; one line with few of them says that all are texts.
    assert read("1,2,3,2,3,4,1,4,12,00,5,3,X\n1,2,3,2,3,4,1,4,Y\n")[0] == "12,00,5,3,X\nY"


@pytest.mark.parametrize(
    ("folder", "labels", "stem"),
    [
        ("ch4_training_images", "ch4_training_localization_transcription_gt/gt_", "ch4_training:img_1"),
        ("ch4_test_images", "Challenge4_Test_Task1_GT/gt_", "ch4_test:img_1"),
        ("Challenge2_Training_Task12_Images", "Challenge2_Training_Task1_GT/gt_", "ch2_training:img_1"),
        ("icdar/train_images", "icdar/train_gts/gt_", "icdar/train:img_1"),
    ],
)
def test_folders_of_parts_of_a_set_find_their_labels_and_are_no_books(tmp_path, folder, labels, stem):
    for name, data in ((f"{folder}/img_1.png", picture()), (f"{labels}img_1.txt", b"1,2,9,2,9,6,1,6,STOP\n")):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    got = Ingested(tmp_path / "out", "icdar", tmp_path / "in")
    assert (got.counts, list(got.rows)) == ((1, 1, 0), [stem])


def test_keys_of_a_receipt_may_be_text_files(tmp_path):
    contents = {
        "img/1.png": picture(),
        "box/1.csv": b"1,2,9,2,9,6,1,6,STOP\n",
        "key/1.txt": b'\xef\xbb\xbf{"total": "9"}\n',
    }
    for name, data in contents.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    got = Ingested(tmp_path / "out", "sroie", tmp_path / "in")
    assert (got.rows["1"].text, got.metadata("1")) == ("STOP", {"total": "9"})
    (tmp_path / "in/box/1.csv").rename(tmp_path / "in/box/1.txt")
    got = Ingested(tmp_path / "again", "sroie", tmp_path / "in")
    assert (got.rows["1"].text, got.metadata("1")) == ("STOP", {"total": "9"})


def test_the_mark_of_what_is_difficult_is_no_text():
    quad = "1,2,3,4,5,6,7,8,"
    text, lines, changes = read(f'{quad}0,"\u91d1, \u773c"\r\n{quad}1,"###"\r\n')
    assert (text, [text for text, _ in lines]) == ("\u91d1, \u773c", ["\u91d1, \u773c", None])
    assert changes["illegible_text"] == 1
    assert quads.label(f'{quad}0,"a"\n{quad}1,"b"', Counter()).fields == {"difficult": [0, 1]}
    assert read(f'{quad}0,"a"\n{quad}b\n')[0] == '0,"a"\nb'


def test_outlines_of_many_corners_stand_among_quads():
    outline = "10,40,50,20,90,18,130,40,125,60,90,40,50,42,15,60"
    pentagon = "20,200,40,190,60,195,62,215,22,220"
    receipt = "1,2,9,2,9,6,1,6"
    text, lines, _ = read(f"{outline},ASRAMA\n{receipt},12\n{pentagon},a,b\n")
    assert text == "ASRAMA\n12\na,b"
    assert [len(points) for _, points in lines] == [16, 8, 10]
    # Boxes of receipts stand upright: what follows them is a text, whatever it begins with.
    assert read(f"{receipt},1,2,3,4,five\n{receipt},b\n")[0] == "1,2,3,4,five\nb"
    assert read("1,2,9,3,9,6,1,6,10,50,EUR\n1,2,9,3,9,6,1,6,b\n")[0] == "10,50,EUR\nb"


@pytest.mark.parametrize("line", ['38, 43, 120, 65, "Tired, very"', '38 43 120 65 "Tired, very"'])
def test_two_corners_are_found_by_their_quotation_marks(tmp_path, line):
    data = f"\ufeff{line}\r\n".encode()
    (tmp_path / "img_1.png").write_bytes(picture())
    (tmp_path / "gt_img_1.txt").write_bytes(data)
    assert resolved(IngestConfig(format="auto", paths=(tmp_path,), output=None)).format == "icdar"
    (item,) = from_text(data, Counter()).layout or ()
    assert (item.text, item.polygon) == ("Tired, very", (38, 43, 120, 65))
    assert not quads.are_quads('1, 2, 3, "four"\n')
