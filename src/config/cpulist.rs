//! Lists of CPUs as the kernel's command line writes them: `0-3,8` or `all`.

use super::catalogue::MAX_CPUS;
use std::ops::RangeInclusive;

/// The ranges of a list, or what is wrong with it. CPUs above the largest machine's are allowed, as in the kernel:
/// only those that exist are used.
pub(super) fn parse(list: &str) -> Result<Vec<RangeInclusive<u32>>, String> {
    let last = MAX_CPUS - 1;
    let number = |text: &str| match text {
        "" => Err("a CPU number is missing".to_string()),
        _ if text.bytes().all(|b| b.is_ascii_digit()) => text
            .parse::<u32>()
            .map_err(|_| "a CPU number is too large".to_string()),
        _ => Err("not a list of CPU numbers and ranges".to_string()),
    };
    if list.is_empty() {
        return Ok(Vec::new());
    }
    list.split(',')
        .map(|part| {
            if part == "all" {
                return Ok(0..=last);
            }
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to) = (number(from)?, number(to)?);
            if from <= to {
                Ok(from..=to)
            } else {
                Err("a range runs backwards".to_string())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_does() {
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("0-3,8"), Ok(vec![0..=3, 8..=8]));
        assert!(parse("all").unwrap()[0].contains(&4000));
        for wrong in ["3-1", "1,,2", "-1", "a", "1-", "99999999999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
