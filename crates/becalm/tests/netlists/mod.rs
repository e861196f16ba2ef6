//! Circuits of known functions, written in Bristol Fashion: arithmetic of machine words, and AES-128 with its key schedule.

/// Gates on numbered wires; the inputs come first.
pub struct Netlist {
    inputs: Vec<usize>,
    wires: usize,
    lines: Vec<String>,
}

/// The wires of a word, the least significant bit first.
type Word = Vec<usize>;

impl Netlist {
    /// No gates yet, and the wires of each input.
    fn new(inputs: &[usize]) -> (Netlist, Vec<Word>) {
        let mut wires = 0;
        let word = |width: &usize| {
            wires += width;
            (wires - width..wires).collect()
        };
        let words = inputs.iter().map(word).collect();
        (Netlist { inputs: inputs.to_vec(), wires, lines: vec![] }, words)
    }

    fn gate(&mut self, kind: &str, from: &[usize]) -> usize {
        let from: Vec<String> = from.iter().map(usize::to_string).collect();
        self.lines.push(format!("{} 1 {} {} {kind}", from.len(), from.join(" "), self.wires));
        self.wires += 1;
        self.wires - 1
    }

    fn and(&mut self, a: usize, b: usize) -> usize {
        self.gate("AND", &[a, b])
    }

    fn xor(&mut self, a: usize, b: usize) -> usize {
        self.gate("XOR", &[a, b])
    }

    fn not(&mut self, a: usize) -> usize {
        self.gate("INV", &[a])
    }

    fn xor_words(&mut self, a: &[usize], b: &[usize]) -> Word {
        a.iter().zip(b).map(|(a, b)| self.xor(*a, *b)).collect()
    }

    /// a + b, with the last carry where there is one more bit to give.
    fn add(&mut self, a: &[usize], b: &[usize], width: usize) -> Word {
        let (mut sum, mut carry) = (vec![], None);
        for (a, b) in a.iter().zip(b) {
            let either = self.xor(*a, *b);
            (sum, carry) = match carry {
                None => ([sum, vec![either]].concat(), Some(self.and(*a, *b))),
                Some(c) => {
                    let with = self.xor(*a, c);
                    let both = self.and(either, with);
                    ([sum, vec![self.xor(either, c)]].concat(), Some(self.xor(both, *a)))
                }
            };
        }
        sum.extend(carry);
        sum.truncate(width);
        sum
    }

    /// `one` where the bit is set, else `zero`.
    fn choose(&mut self, bit: usize, one: &[usize], zero: &[usize]) -> Word {
        let choose = |(a, b): (&usize, &usize)| {
            let differs = self.xor(*a, *b);
            let taken = self.and(bit, differs);
            self.xor(taken, *b)
        };
        one.iter().zip(zero).map(choose).collect()
    }

    /// The text, with these words as results: the last wires.
    fn text(mut self, outputs: &[Word]) -> String {
        for wire in outputs.concat() {
            self.gate("EQW", &[wire]);
        }
        let line = |widths: &mut dyn Iterator<Item = usize>| {
            let widths: Vec<String> = widths.map(|w| w.to_string()).collect();
            format!("{} {}", widths.len(), widths.join(" "))
        };
        let (inputs, outputs) =
            (line(&mut self.inputs.iter().copied()), line(&mut outputs.iter().map(Vec::len)));
        let (gates, all) = (self.lines.len(), self.lines.join("\n"));
        format!("{gates} {}\n{inputs}\n{outputs}\n\n{all}\n", self.wires)
    }
}

/// Sum of two words, modulo 2^`bits`.
pub fn adder(bits: usize) -> String {
    let (mut net, words) = Netlist::new(&[bits, bits]);
    let sum = net.add(&words[0], &words[1], bits);
    net.text(&[sum])
}

/// Product of two words, modulo 2^`bits`: row by row, as on paper.
pub fn multiplier(bits: usize) -> String {
    let (mut net, words) = Netlist::new(&[bits, bits]);
    let (a, b) = (&words[0], &words[1]);
    let row = |net: &mut Netlist, i: usize| -> Word {
        a[..bits - i].iter().map(|a| net.and(*a, b[i])).collect()
    };
    let mut product = row(&mut net, 0);
    for i in 1..bits {
        let row = row(&mut net, i);
        let sum = net.add(&product[i..], &row, bits - i);
        product.splice(i.., sum);
    }
    net.text(&[product])
}

/// Whether a word is 0, by a chain.
pub fn is_zero(bits: usize) -> String {
    let (mut net, words) = Netlist::new(&[bits]);
    let mut zero = net.not(words[0][0]);
    for bit in &words[0][1..] {
        let clear = net.not(*bit);
        zero = net.and(zero, clear);
    }
    net.text(&[vec![zero]])
}

/// A word of 2^`log_bits` bits rotated to the left by a number.
pub fn rotator(log_bits: usize) -> String {
    let (mut net, words) = Netlist::new(&[1 << log_bits, log_bits]);
    let mut word = words[0].clone();
    for (i, bit) in words[1].iter().enumerate() {
        let mut turned = word.clone();
        turned.rotate_right(1 << i);
        word = net.choose(*bit, &turned, &word);
    }
    net.text(&[word])
}

/// The larger of two words, and whether it is the second.
pub fn maximum(bits: usize) -> String {
    let (mut net, words) = Netlist::new(&[bits, bits]);
    let (a, b) = (&words[0], &words[1]);
    let nought = net.xor(a[0], a[0]);
    let mut less = nought;
    for (a, b) in a.iter().zip(b) {
        // The higher bit decides where the two differ.
        let differs = net.xor(*a, *b);
        less = net.choose(differs, &[*b], &[less])[0];
    }
    let larger = net.choose(less, b, a);
    net.text(&[larger, vec![less]])
}

/// Product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1.
fn product(a: u8, b: u8) -> u8 {
    (0..8).fold(0, |sum, i| {
        let shifted = (0..i).fold(a, |a, _| (a << 1) ^ (if a > 127 { 0x1b } else { 0 }));
        if b >> i & 1 == 1 { sum ^ shifted } else { sum }
    })
}

impl Netlist {
    /// A linear map of a byte.
    fn linear(&mut self, x: &[usize], image: impl Fn(u8) -> u8) -> Word {
        let row = |i: usize| {
            let mut terms = (0..8).filter(|k| image(1 << k) >> i & 1 == 1).map(|k| x[k]);
            let first = terms.next().expect("a map that is onto");
            terms.fold(first, |sum, term| self.xor(sum, term))
        };
        (0..8).map(row).collect()
    }

    /// Product of two bytes in GF(2^8).
    fn multiply(&mut self, a: &[usize], b: &[usize]) -> Word {
        let mut sums: Vec<Option<usize>> = vec![None; 8];
        // The terms of one power of x together, then that power reduced.
        for power in 0..15 {
            let pairs = (0..8).filter(|i| (0..8).contains(&(power - i))).collect::<Vec<i32>>();
            let mut term = None;
            for i in pairs {
                let both = self.and(a[i as usize], b[(power - i) as usize]);
                term = Some(term.map_or(both, |t| self.xor(t, both)));
            }
            let reduced = (0..power).fold(1u8, |x, _| product(x, 2));
            for bit in (0..8).filter(|bit| reduced >> bit & 1 == 1) {
                let sum: &mut Option<usize> = &mut sums[bit];
                *sum = Some(match (*sum, term) {
                    (Some(s), Some(t)) => self.xor(s, t),
                    (_, t) => t.expect("a term of every power"),
                });
            }
        }
        sums.into_iter().map(|s| s.expect("every bit")).collect()
    }

    /// The S-box: x^254 by four products, since powers of two are linear, then the affine map.
    fn substitute(&mut self, x: &[usize]) -> Word {
        let raised = |n: u32| move |x: u8| (0..n).fold(x, |x, _| product(x, x));
        let two = self.linear(x, raised(1));
        let three = self.multiply(x, &two);
        let twelve = self.linear(&three, raised(2));
        let fifteen = self.multiply(&three, &twelve);
        let high = self.linear(&fifteen, raised(4));
        let fourteen = self.multiply(&twelve, &two);
        let inverse = self.multiply(&high, &fourteen);
        let turned = self.linear(&inverse, |b| (1..5).fold(b, |s, k| s ^ b.rotate_left(k)));
        let flip = |(i, bit): (usize, usize)| if 0x63 >> i & 1 == 1 { self.not(bit) } else { bit };
        turned.into_iter().enumerate().map(flip).collect()
    }
}

/// AES-128, or the sum with the next key behind its first rounds: of a key and a block, each as a number whose first byte is the most
/// significant one.
pub fn aes(rounds: usize) -> String {
    let (mut net, words) = Netlist::new(&[128, 128]);
    let bytes = |word: &Word| word.rchunks(8).map(<[usize]>::to_vec).collect::<Vec<Word>>();
    let (mut key, mut state) = (bytes(&words[0]), bytes(&words[1]));
    let mut constant = 1u8;
    for round in 0..=rounds {
        state = state.iter().zip(&key).map(|(s, k)| net.xor_words(s, k)).collect();
        if round == rounds {
            break;
        }
        state = state.iter().map(|byte| net.substitute(byte)).collect();
        state = (0..16).map(|i| state[(i + 4 * (i % 4)) % 16].clone()).collect();
        if round < 9 {
            state = mixed(&mut net, &state);
        }
        for i in 0..16 {
            let mut byte = match i {
                0..4 => net.substitute(&key[12 + (i + 1) % 4]),
                _ => key[i - 4].clone(),
            };
            if i == 0 {
                let flip = |(j, bit): (usize, usize)| {
                    if constant >> j & 1 == 1 { net.not(bit) } else { bit }
                };
                byte = byte.into_iter().enumerate().map(flip).collect();
            }
            key[i] = net.xor_words(&key[i].clone(), &byte);
        }
        constant = product(constant, 2);
    }
    let cipher = state.into_iter().rev().flatten().collect();
    net.text(&[cipher])
}

/// MixColumns.
fn mixed(net: &mut Netlist, state: &[Word]) -> Vec<Word> {
    let byte = |i: usize| {
        let column = i / 4 * 4;
        let at = |k: usize| &state[column + (i + k) % 4];
        let both = net.xor_words(at(0), at(1));
        let twice = net.linear(&both, |x| product(x, 2));
        let rest = net.xor_words(at(2), at(3));
        let rest = net.xor_words(&rest, at(1));
        net.xor_words(&twice, &rest)
    };
    (0..16).map(byte).collect()
}
