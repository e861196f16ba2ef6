//! The bombs: a name, and a function that makes the bytes.

/// A name, and a function that makes the bytes.
pub type Bomb = (&'static str, fn() -> Vec<u8>);

/// Each line of `line`, one for each number below `count`.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| line(i) + "\n").collect()
}

/// Words of `word`, separated by spaces.
fn words(count: usize, word: impl Fn(usize) -> String) -> String {
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// A circuit of two input bits and `count` gates, the last of which is the output.
fn gates(count: usize, gate: impl Fn(usize) -> String) -> Vec<u8> {
    format!("{count} {}\n1 2\n1 1\n\n{}", count + 2, lines(count, |i| gate(i + 2))).into()
}

/// A BLIF text with two inputs, one output `o` and these tables.
fn blif(rest: impl std::fmt::Display) -> Vec<u8> {
    format!(".model m\n.inputs a b\n.outputs o\n{rest}\n.end\n").into()
}

/// Every text of Bristol Fashion.
pub const BRISTOL: &[Bomb] = &[
    ("wires of a large head", || b"0 4194304\n1 4194304\n1 4194304\n".to_vec()),
    ("the same with spaces", || b"0  4194304 \n 1  4194304 \n 1  4194304 \n\n\n".to_vec()),
    ("gates that are not there", || b"4194303 4194304\n1 1\n1 1\n".to_vec()),
    ("wires and few inputs", || b"1 4194304\n1 1\n1 1\n1 1 0 4194303 INV\n".to_vec()),
    ("the largest counts", || format!("{0} {0}\n1 {0}\n1 {0}\n", usize::MAX).into()),
    ("widths whose sum is too large", || format!("1 9\n2 {0} {0}\n1 1\n", usize::MAX).into()),
    ("widths of half the sum", || format!("1 9\n2 {0} {0}\n1 1\n", 1u64 << 63).into()),
    ("many wide inputs", || format!("1 9\n500 {}\n1 1\n", words(500, |_| "4194304".into())).into()),
    ("many free inputs", || {
        format!("0 5600000\n350 {}\n1 1\n", words(350, |_| "16000".into())).into()
    }),
    ("as many inputs as are free", || b"0 16384\n1 16384\n1 16384\n".to_vec()),
    ("as many ports as the text has", || {
        let all = words(1200, |_| "1".into());
        format!("0 1200\n1200 {all}\n1200 {all}\n").into()
    }),
    ("many outputs of one gate", || {
        format!("1 3\n1 2\n2000 {}\n2 1 0 1 2 AND\n", words(2000, |_| "1".into())).into()
    }),
    ("a width of 4000 digits", || format!("1 3\n1 {}\n1 1\n", "9".repeat(4000)).into()),
    ("a count of 4000 zeros", || format!("{} 3\n1 1\n1 1\n", "0".repeat(4000)).into()),
    ("empty lines", || vec![b'\n'; 5000]),
    ("white space", || vec![b' '; 5000]),
    ("a chain of AND", || gates(200, |i| format!("2 1 {} {} {i} AND", i - 1, i % 2))),
    ("a chain of XOR", || gates(200, |i| format!("2 1 {} {} {i} XOR", i - 1, i - 2))),
    ("AND of the last two", || gates(200, |i| format!("2 1 {} {} {i} AND", i - 1, i - 2))),
    ("AND and XOR in turn", || {
        gates(200, |i| format!("2 1 {} {} {i} {}", i - 1, i - 2, ["AND", "XOR"][i % 2]))
    }),
    ("a chain of INV", || gates(250, |i| format!("1 1 {} {i} INV", i - 1))),
    ("the same gate again", || gates(220, |i| format!("2 1 0 1 {i} AND"))),
    ("constants", || gates(250, |i| format!("1 1 {} {i} EQ", i % 2))),
    ("a gate of many inputs", || b"1 4\n1 2\n1 1\n4000000000 1 0 1 2 AND\n".to_vec()),
    ("a gate of many pairs", || {
        format!("1 4000\n1 2\n1 1\n1000 500 {} MAND\n", words(900, |i| i.to_string())).into()
    }),
    ("a wire that is far away", || b"1 3\n1 2\n1 1\n2 1 0 18446744073709551615 2 AND\n".to_vec()),
    ("a result that is far away", || b"1 3\n1 2\n1 1\n2 1 0 1 4294967298 AND\n".to_vec()),
    ("a wire written again", || gates(200, |_| "2 1 0 1 2 AND".into())),
    ("one line", || format!("1 3 {}", "1 ".repeat(2500)).into()),
    ("letters without white space", || "é".repeat(2500).into()),
];

/// Every text of BLIF.
pub const BLIF: &[Bomb] = &[
    ("a wide product", || {
        let names = words(500, |i| format!("i{i}"));
        format!(".inputs {names}\n.outputs o\n.names {names} o\n{} 1\n", "1".repeat(500))
            .into_bytes()
    }),
    ("a product of one name", || {
        blif(format!(".names {} o\n{} 1", words(1500, |_| "a".into()), "10".repeat(750)))
    }),
    ("all products of eight inputs", || {
        let names = words(8, |i| format!("i{i}"));
        let odd = (0..256usize).filter(|x| (x.count_ones() ^ ((*x as u32 * 37) >> 3)) & 1 == 1);
        let rows: String = odd.map(|x| format!("{x:08b} 1\n")).collect();
        format!(".inputs {names}\n.outputs o\n.names {names} o\n{rows}").into()
    }),
    ("the same product again", || blif(format!(".names a b o\n{}", lines(900, |_| "11 1".into())))),
    ("products of no inputs", || blif(format!(".names o\n{}", lines(1500, |_| "1".into())))),
    ("products that list zeros", || {
        blif(format!(".names a b o\n{}", lines(900, |_| "1- 0".into())))
    }),
    ("a chain of tables", || {
        let chain = lines(180, |i| format!(".names t{} a t{i}\n11 1", i + 1));
        blif(format!("{chain}.names a t180\n1 1\n.names t0 o\n1 1"))
    }),
    ("both inputs are the next table", || {
        let chain = lines(180, |i| format!(".names t{0} t{0} t{i}\n10 1", i + 1));
        blif(format!("{chain}.names a t180\n1 1\n.names t0 o\n1 1"))
    }),
    ("the next two tables", || {
        let chain = lines(160, |i| format!(".names t{} t{} t{i}\n10 1\n01 1", i + 1, i + 2));
        blif(format!("{chain}.names a t160\n1 1\n.names b t161\n1 1\n.names t0 o\n1 1"))
    }),
    ("a loop", || {
        let chain = lines(180, |i| format!(".names t{} a t{i}\n11 1", (i + 1) % 180));
        blif(format!("{chain}.names t0 o\n1 1"))
    }),
    ("a table of itself", || blif(".names o o\n1 1")),
    ("a bit that is far away", || {
        b".inputs a[0] a[18446744073709551615]\n.outputs o\n.names o\n".to_vec()
    }),
    ("a hole of 2^32 bits", || b".inputs a[0] a[4294967296]\n.outputs o\n.names o\n".to_vec()),
    ("an index beyond all numbers", || {
        format!(".inputs a[{}]\n.outputs o\n.names o\n1\n", "9".repeat(4000)).into()
    }),
    ("every bit again", || {
        format!(
            ".inputs {}\n.outputs o\n.names o\n",
            words(700, |i| format!("a[{:0w$}]", 1, w = i % 4 + 1))
        )
        .into()
    }),
    ("many inputs", || {
        format!(".inputs {}\n.outputs o\n.names o\n1\n", words(1300, |i| format!("{i:x}"))).into()
    }),
    ("many outputs without tables", || {
        format!(".inputs a\n.outputs {}\n", words(1300, |i| format!("{i:x}"))).into()
    }),
    ("inputs that are outputs", || {
        let names = words(600, |i| format!("{i:x}"));
        format!(".inputs {names}\n.outputs {names}\n").into()
    }),
    ("bits in the wrong order", || {
        let names = words(500, |i| format!("a[{}]", 499 - i));
        format!(".inputs {names}\n.outputs o\n.names o\n1\n").into()
    }),
    ("tables that are not read", || blif(lines(450, |i| format!(".names {i:x}\n1")) + ".names o")),
    ("a table again", || blif(lines(450, |_| ".names o".into()))),
    ("lists that go on", || {
        format!(".inputs \\\n{}a\n.outputs a\n", lines(2000, |_| "\\".into())).into()
    }),
    ("comments", || blif(lines(1500, |_| "#".into()))),
    ("models within models", || lines(300, |i| format!(".model m{i}")).into()),
    ("a part of itself", || blif(lines(300, |_| ".subckt m a=a o=o".into()))),
    ("a file of itself", || blif(".search bomb.blif")),
    ("latches", || blif(lines(400, |i| format!(".latch a l{i}")))),
    ("ends", || lines(1000, |_| ".end".into()).into()),
    ("a name of 5000 letters", || format!(".inputs {0}\n.outputs {0}\n", "n".repeat(2900)).into()),
    ("products without a table", || blif(lines(1000, |_| "11 1".into()))),
];

/// The word of a binary.
fn word(op: u64, dst: u64, src: u64, count: u64) -> u64 {
    op | dst << 8 | src << 24 | count << 40
}

/// A binary of the processor.
fn binary(rest: &[u64]) -> Vec<u8> {
    let magic = u64::from_le_bytes(*b"becalm01");
    [magic].iter().chain(rest).flat_map(|w| w.to_le_bytes()).collect()
}

/// A text of instructions that ends with `halt`.
fn code(rest: String) -> Vec<u8> {
    format!("{rest}\nhalt\n").into()
}

/// Every text and binary of the processor's instructions.
pub const ISA: &[Bomb] = &[
    ("many short instructions", || code(lines(1000, |_| "sync".into()))),
    ("many ends", || lines(1100, |_| "halt".into()).into()),
    ("no end", || lines(900, |_| "flush".into()).into()),
    ("nothing", Vec::new),
    ("terms", || code(format!("muladd r0 0x0 {}", words(1100, |_| "1*r0".into())))),
    ("more terms than a count has", || code("1*r0 ".repeat(1100) + "muladd")),
    ("terms of many instructions", || code(lines(250, |_| "muladd r0 0x0 1*r0".into()))),
    ("results", || code(format!("pbs r0 r0 0x0 0x0 {}", words(1300, |_| "0x0".into())))),
    ("results past the last slot", || {
        code(format!("pbs r65535 r0 0x0 0x0 {}", words(1300, |_| "0x0".into())))
    }),
    ("results of many instructions", || code(lines(210, |_| "pbs r0 r0 0x0 0x0 0x0".into()))),
    ("a slot that is not there", || code("ld r65536 0x0".into())),
    ("a slot of 4000 digits", || code(format!("ld r{} 0x0", "9".repeat(4000)))),
    ("a slot of 4000 zeros", || code(format!("ld r{} 0x0", "0".repeat(4000)))),
    ("an address of 4000 digits", || code(format!("ld r0 0x{}", "f".repeat(4000)))),
    ("an address of 4000 zeros", || code(format!("ld r0 0x{}", "0".repeat(4000)))),
    ("the largest coefficient", || code(format!("muladd r0 0x0 {}*r0", i64::MIN))),
    ("a coefficient of 4000 digits", || code(format!("muladd r0 0x0 {}*r0", "9".repeat(4000)))),
    ("stars", || code(format!("muladd r0 0x0 {}", "*".repeat(5000)))),
    ("comments", || code(lines(2500, |_| "#".into()))),
    ("one comment", || code("#".repeat(5000))),
    ("white space", || vec![b'\t'; 5000]),
    ("words", || "a ".repeat(2500).into()),
    ("one word", || "é".repeat(2500).into()),
    ("zero bytes", || vec![0; 5000]),
    ("a binary of syncs", || {
        let mut all = vec![word(6, 0, 0, 0); 600];
        all.push(0);
        binary(&all)
    }),
    ("a count without words", || binary(&[word(3, 0, 0, (1 << 23) - 1), 0])),
    ("the largest count without words", || binary(&[word(3, 0, 0, 4096), 0])),
    ("results without words", || binary(&[word(5, 0, 0, 4096), 0, 0])),
    ("the largest words", || binary(&[u64::MAX; 600])),
    ("the first word again", || binary(&[u64::from_le_bytes(*b"becalm01"); 600])),
    ("a binary that ends in a word", || binary(&[0])[..12].to_vec()),
];
