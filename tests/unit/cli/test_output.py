from klamm.cli.output import table


def test_columns_are_aligned_numbers_to_the_right() -> None:
    rows = [("orders", 12, "-"), ("p", 3, "compact")]
    assert table(("topic", "partitions", "policy"), rows).splitlines() == [
        "TOPIC   PARTITIONS  POLICY",
        "orders          12  -",
        "p                3  compact",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table(("topic",), []) == "TOPIC"
