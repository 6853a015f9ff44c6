//! The known name that is nearest to an unknown one.

use super::settable;

/// Edit distance: insertions, deletions, replacements and swaps of neighbours each cost 1.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut two_back: Vec<usize> = Vec::new();
    let mut back: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = back[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(back[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(two_back[j - 2] + 1);
            }
            row.push(best);
        }
        two_back = std::mem::replace(&mut back, row);
    }
    back[b.len()]
}

/// Input longer than this is compared by its beginning only.
const COMPARED_CHARS: usize = 80;
/// From this length on, a word that occurs inside a known name is taken as a part of it.
const PART_CHARS: usize = 4;

/// The Python or full catalogue name nearest to `name`, ignoring case: a name that contains it as a
/// whole, else the smallest edit distance; of equals the first in the catalogue, Python names before
/// full ones.
pub fn nearest_name(name: &str) -> &'static str {
    let wanted = compared(name);
    let long_enough = wanted.chars().count() >= PART_CHARS;
    let python = settable().map(|spec| spec.python_name);
    let full = settable().map(|spec| spec.name);
    python
        .chain(full)
        .min_by_key(|known| {
            let known = known.to_lowercase();
            (
                !(long_enough && known.contains(&wanted)),
                distance(&wanted, &known),
            )
        })
        .expect("the catalogue is not empty")
}

/// The beginning of a name, in lower case.
fn compared(name: &str) -> String {
    let beginning: String = name.chars().take(COMPARED_CHARS).collect();
    beginning.to_lowercase()
}

/// [`nearest_name`] where it is near enough to be what was meant: a part of it, or at most about a third
/// of the letters wrong.
pub fn near_name(name: &str) -> Option<&'static str> {
    let nearest = nearest_name(name);
    let (wanted, known) = (compared(name), nearest.to_lowercase());
    let length = wanted.chars().count();
    let part = length >= PART_CHARS && known.contains(&wanted);
    let wrong = distance(&wanted, &known);
    (part || wrong <= (length.min(known.len()) / 3).max(1)).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_near() {
        assert_eq!(near_name("nr_cpu"), Some("nr_cpus"));
        assert_eq!(near_name("NR_CPUS"), Some("nr_cpus"));
        assert_eq!(near_name("first_fqs"), Some("jiffies_till_first_fqs"));
        assert_eq!(near_name("zh"), Some("hz"));
        assert_eq!(near_name("foo"), None);
        assert_eq!(near_name(""), None);
        assert_eq!(near_name(&"9".repeat(5000)), None);
    }

    #[test]
    fn distances_by_hand() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("", "hz"), 2);
        assert_eq!(distance("hz", "hz"), 0);
        assert_eq!(distance("zh", "hz"), 1); // swap
        assert_eq!(distance("nr_cpu", "nr_cpus"), 1); // insertion
        assert_eq!(distance("blimits", "blimit"), 1); // deletion
        assert_eq!(distance("qovld", "qovlt"), 1); // replacement
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
