//! Arguments of `cargo xtask test`.

use super::{Extent, Part, extent};

#[test]
fn tier_and_part_arguments_are_parsed() {
    let extent = |text: &str| extent(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(extent(""), Ok(Extent { is_all: false, part: Part::WHOLE }));
    assert_eq!(extent("--all"), Ok(Extent { is_all: true, part: Part::WHOLE }));
    let third = Part::parse("3/3").unwrap();
    assert_eq!(extent("--all --part 3/3"), Ok(Extent { is_all: true, part: third }));
    for wrong in ["--part 1/2", "--all --part", "--all --part 3/2", "all", "--all --all"] {
        assert!(extent(wrong).is_err(), "{wrong}");
    }
}
