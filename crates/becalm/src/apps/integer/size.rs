//! The most elements that one program works on: larger ones do not fit into memory, or take minutes to record.

use super::Type;

/// Digits, or products of digits, of one program at the most (16 KB of registers for each).
const MOST: usize = 1 << 18;

/// The size of the program of an operation on so many elements: digits, or products of digits.
fn steps(operation: &str, ty: Type, count: usize) -> usize {
    let digits = ty.digits();
    match operation {
        "cumprod" | "dot" | "matmul" | "prod" => count.saturating_mul(digits * digits),
        "sort" | "argsort" => {
            let levels = (usize::BITS - count.saturating_sub(1).max(1).leading_zeros()) as usize;
            let own = if operation == "argsort" { levels.div_ceil(2) } else { 0 };
            // Beside its comparison, each comparator takes two bootstraps for a digit.
            count.saturating_mul(levels * (levels + 1) / 2 * (digits + own))
        }
        _ => count.saturating_mul(digits),
    }
}

/// The largest number of elements of a type that an operation takes in one program.
///
/// ```
/// use becalm::apps::integer::most_elements;
/// assert_eq!(most_elements("sum", "uint8".parse().unwrap()), 1 << 16);
/// ```
pub fn most_elements(operation: &str, ty: Type) -> usize {
    let (mut low, mut high) = (0, 2 * MOST);
    while low < high {
        let middle = (low + high).div_ceil(2);
        match steps(operation, ty, middle) <= MOST {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_elements_fit_and_one_more_does_not() {
        for name in ["bool", "uint8", "int64", "uint256"] {
            let ty: Type = name.parse().unwrap();
            for operation in ["sum", "isin", "prod", "matmul", "sort", "argsort"] {
                let most = most_elements(operation, ty);
                assert!(most > 0 && steps(operation, ty, most) <= MOST, "{operation} {name}");
                assert!(steps(operation, ty, most + 1) > MOST, "{operation} {name}");
            }
            let [sum, product] = ["sum", "prod"].map(|o| most_elements(o, ty));
            assert_eq!(sum, MOST / ty.digits());
            assert_eq!(product, MOST / ty.digits().pow(2));
            assert!(most_elements("argsort", ty) < most_elements("sort", ty));
        }
    }
}
