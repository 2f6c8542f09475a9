"""Mixture files, and what they mean."""

from fractions import Fraction

import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.mixture import whole_weights
from shardkit.sequence.plan.report import describe
from tests.sequence.plan.builders import make_lengths, make_plan


def test_a_file_is_read(tmp_path):
    file = tmp_path / "mix.toml"
    file.write_text('by = "token"\nweights = {web = 0.1, ocr = 3}\nepoch = {source = "ocr"}\n')

    mixture = Mixture.of(file)

    assert mixture == Mixture(by="token", weights=(("ocr", Fraction(3)), ("web", Fraction(1, 10))), epoch_source="ocr")
    assert Mixture.of(mixture.to_json()) == mixture


def test_decimal_weights_mean_what_they_say():
    assert whole_weights(Mixture.of({"weights": {"a": 0.1, "b": 0.3, "c": 0}})) == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "weights are not a table"),
        ({"weights": {}}, "no weight of the mixture is above 0"),
        ({"weights": {"a": 0}}, "no weight of the mixture is above 0"),
        ({"weights": {"a": -1}}, "'a' is -1, not a number from 0 on"),
        ({"weights": {"a": "many"}}, "'a' is 'many', not a number"),
        ({"weights": {"a": "1e999999999"}}, "'a' is '1e999999999', not a number"),
        ({"weights": {"a": True}}, "'a' is True, not a number"),
        ({"weights": {"a": float("nan")}}, "'a' is nan, not a number"),
        ({"weights": {"a": float("inf")}}, "'a' is inf, not a number"),
        ({"weights": {"a": 1}, "by": "row"}, "cannot be by 'row' (known: example, token, media, loss, compute)"),
        (
            {"weights": {"a": 1}, "wieghts": 1},
            "no field 'wieghts' (known: by, weights, epoch, objectives, repeat, subset, then, temperature, cap)",
        ),
        ({"weights": {"a": 1}, "epoch": "a"}, "epoch is 'a', not {source = NAME} or {tokens = N}"),
        ({"weights": {"a": 1}, "epoch": {"steps": 4}}, "not {source = NAME} or {tokens = N}"),
        ({"weights": {"a": 1}, "epoch": {"tokens": 0}}, "epoch is 0 tokens"),
        ({"weights": {"a": 1}, "objectives": {"ocr": 2}}, "mean nothing in a mixture by example"),
        ({"weights": {"a": 1}, "repeat": {"a": 0}}, "repeat is {'a': 0}, not a table of NAME = PASSES"),
        ({"weights": {"a": 1}, "subset": {"bytes": 5}}, "not {UNIT = N} with tokens | examples | compute"),
        ({"weights": {"a": 1}, "subset": {"tokens": 0}}, "subset is 0 tokens"),
        ({"weights": {"a": 1}, "then": {"from_step": 5}}, "`then` is no list of tables"),
        ({"weights": {"a": 1}, "then": [{"from_step": 5}]}, "change 1 of the mixture has from_step, not from_step or"),
        ({"weights": {"a": 1}, "then": [{"from_step": 0, "weights": {"a": 1}}]}, "from_step of change 1 is 0"),
        (
            {"weights": {"a": 1}, "then": [{"from_step": n, "weights": {"a": 1}} for n in (5, 5)]},
            "do not follow one another",
        ),
        (
            {"weights": {"a": 1}, "then": [{name: 9, "weights": {"a": 1}} for name in ("from_step", "from_tokens")]},
            "all by steps or all by tokens",
        ),
        ({"weights": {"a": 1}, "then": [{"from_step": 5, "weights": {"a": 0}}]}, "no weight of the mixture is above 0"),
        ({"weights": {"a": 1}, "temperature": 0.5}, "weights or a temperature, not both"),
        ({"temperature": -1}, "the temperature is -1, not a number from 0 to 10"),
        ({"weights": {"a": 1}, "cap": 5}, "a cap means nothing without a temperature"),
        ({"temperature": 1, "cap": 0}, "the cap is 0, not a number above 0"),
        ({"weights": {"a": 1}, "by": "loss", "objectives": {"orc": 2}}, "no objective 'orc'"),
        ({"weights": {"a": 1}, "by": "loss", "objectives": {"ocr": "1/3"}}, "three decimals"),
    ],
)
def test_what_a_mixture_cannot_say(content, words):
    with pytest.raises(ConfigError) as caught:
        Mixture.of(content)

    assert words in str(caught.value)
    assert caught.value.hint


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"mix.toml: the mixture file cannot be read \(No such file"):
        Mixture.of(tmp_path / "mix.toml")
    for content in (b"by = ", b"\xff", b"cap = " + b"9" * 5000, b"a = " + b"[" * 100_000):
        (tmp_path / "mix.toml").write_bytes(content)
        with pytest.raises(ConfigError, match=r"mix\.toml: the mixture file is no TOML"):
            Mixture.of(tmp_path / "mix.toml")


def test_names_are_compared_with_the_data():
    Mixture.of({"weights": {"a": 1, "b": 0}}).check(("a", "b"))
    with pytest.raises(ConfigError, match=r"weighs a source 'c' that is not in the data \(found: a, b\)"):
        Mixture.of({"weights": {"a": 1, "b": 1, "c": 1}}).check(("a", "b"))
    with pytest.raises(ConfigError, match="gives the source 'b' no weight"):
        Mixture.of({"weights": {"a": 1}}).check(("a", "b"))
    with pytest.raises(ConfigError, match="limits a source 'c' that is not in the data"):
        Mixture.of({"weights": {"a": 1, "b": 1}, "repeat": {"c": 2}}).check(("a", "b"))
    with pytest.raises(ConfigError, match="gives the source 'b' no weight"):
        Mixture.of({"weights": {"a": 1, "b": 1}, "then": [{"from_step": 2, "weights": {"a": 1}}]}).check(("a", "b"))
    with pytest.raises(ConfigError, match="epoch ends with the source 'b', which is not drawn"):
        Mixture.of({"weights": {"a": 1, "b": 0}, "epoch": {"source": "b"}}).check(("a", "b"))


def test_a_temperature_gives_weights_in_whole_numbers():
    lengths = make_lengths([900] * 10 + [100], sources=["a"] * 10 + ["b"])

    def weights(**more):
        return {name: int(weight) for name, weight in Mixture.of({"by": "token", **more}).weighed(lengths).weights}

    assert weights(temperature=1) == {"a": 1_000_000, "b": 11_111}
    assert weights(temperature=0.5) == {"a": 1_000_000, "b": 105_409}
    assert weights(temperature=0) == {"a": 1_000_000, "b": 1_000_000}
    assert weights(temperature=1, cap=200) == {"a": 1_000_000, "b": 500_000}
    assert Mixture.of({"by": "token", "temperature": 1}).weighed(lengths).to_json()["weights"]["b"] == "11111"


def test_a_mixture_survives_its_json_and_its_file(tmp_path):
    mixture = Mixture.of(
        {
            "by": "loss",
            "weights": {"a b": "1/3", "c": 2},
            "epoch": {"tokens": 500},
            "objectives": {"ocr": 2.5},
            "repeat": {"c": 4},
            "subset": {"compute": 10**15},
            "then": [
                {"from_step": 10, "weights": {"a b": 1, "c": 0}},
                {"from_step": 20, "weights": {"a b": 1, "c": 1}},
            ],
        }
    )
    file = tmp_path / "mixture.toml"
    file.write_text(mixture.to_toml())

    assert Mixture.of(mixture.to_json()) == mixture
    assert Mixture.of(file) == mixture


def test_units():
    lengths = make_lengths([10, 20], patches=[4, 0])
    lengths.supervised[4] = [5, 0]

    def units(by, **more):
        return Mixture.of({"by": by, "weights": {"one": 1}, **more}).units(lengths).tolist()

    assert units("example") == [1, 1]
    assert units("token") == [10, 20]
    assert units("media") == [4, 0]
    assert units("compute") == [10 * 12298 + 4 * 12288, 20 * 12308]
    assert units("loss") == [9 + 5, 19]
    # Halves are counted in halves, so that units stay whole.
    assert units("loss", objectives={"answer": 2.5}) == [2 * 9 + 5 * 5, 2 * 19]


@pytest.mark.parametrize(
    ("mixture", "power"),
    [
        ({"weights": {"a": 1e30, "b": 1}}, 31),
        ({"weights": {"a": 10**400, "b": "1/3"}}, 402),
        ({"weights": {"a": 1, "b": 1}, "then": [{"from_step": 9, "weights": {"a": 1e15, "b": 1}}]}, 16),
        ({"weights": {"a": 1, "b": 1}, "epoch": {"tokens": 10**15}}, 14),
        ({"weights": {"a": 10**12, "b": 1}, "repeat": {"a": 10**6}}, 13),
    ],
)
def test_an_epoch_that_nobody_can_wait_for_is_refused(mixture, power):
    lengths = make_lengths([10] * 60, sources=["a", "b", "b"] * 20)

    with pytest.raises(ConfigError) as caught:
        make_plan(lengths, mixture=Mixture.of(mixture))

    assert f"would draw about 10^{power} sequences, of 60 that there are" in str(caught.value)
    assert "epoch = {source = NAME}" in caught.value.hint


@pytest.mark.parametrize(
    "more",
    [
        {"epoch": {"source": "a"}},
        {"repeat": {"a": 2}},
        {"then": [{"from_tokens": 50, "weights": {"a": 1, "b": 1}}]},
        {"subset": {"examples": 40}, "epoch": {"tokens": 300}},
    ],
    ids=str,
)
def test_far_weights_are_taken_where_the_epoch_has_an_end(more):
    lengths = make_lengths([10] * 60, sources=["a", "b", "b"] * 20)
    weights = {"a": str(10**25 + 1), "b": "1/3"}
    if "subset" in more:
        weights = {"a": 2, "b": 1}
    plan = make_plan(lengths, mixture=Mixture.of({"weights": weights, **more}))

    figures = describe(plan, 0)

    assert 20 <= figures["sequences"] <= 120
    assert 0 <= figures["mixture"]["largest_gap"]["draw_in_sequences"] <= 1
