//! No file makes its reader allocate much more than its own length. One test in its own process, because the
//! allocations of the whole process are counted.

mod harness;

use becalm::cipher::file::Trust;
use becalm::cipher::{Encoding, EvaluationKey, Lwe, SecretKey};
use becalm::ckks::{Chain, Matrix};
use becalm::math::complex::Complex;
use becalm::params::{CkksParams, TfheParams};
use becalm::program::circuit::Circuit;
use becalm::program::rlwe::CkksProgram;
use becalm::program::{Program, isa};
use harness::*;
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes that were alive at once during `f`, above what was before.
fn most<T>(f: impl FnOnce() -> T) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let kept = f();
    let most = MOST.load(Relaxed) - before;
    drop(kept);
    most
}

/// For headers, error messages and the tables of sets.
const SPARE: usize = 1 << 20;

#[test]
fn memory_follows_the_length_of_the_file() {
    let trust = Trust::insecure();
    let key = SecretKey::generate(&tiny(), true).unwrap();
    let batch = key.encrypt(&[1; 2000]).unwrap().to_bytes().unwrap();
    let _ = Lwe::from_bytes(&batch, trust); // tables are made once
    let honest = most(|| Lwe::from_bytes(&batch, trust).unwrap());
    assert!(honest < batch.len() + SPARE, "{honest} for {}", batch.len());
    bombs_of_keys(&key, trust);
    let amplified = programs(trust);
    eprintln!("a program takes {amplified:.1} times its file");
    ckks_numbers(trust);
    let amplified = ckks_programs(trust);
    eprintln!("the instructions of a program of CKKS take {amplified:.1} times their bytes");
    texts();
    #[cfg(target_os = "linux")]
    pages();
}

/// Pages of this process in memory, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

/// An encryption that is stopped at once has taken next to no pages: nothing keeps it from stopping soon.
#[cfg(target_os = "linux")]
fn pages() {
    let params = TfheParams::named("tfhe_2_2").unwrap();
    let key = SecretKey::generate(params, false).unwrap();
    let (values, seen, before) = (vec![1; 8000], AtomicUsize::new(0), resident());
    let stop = |_: usize, _: usize| {
        seen.store(resident(), Relaxed);
        ControlFlow::Break(())
    };
    let encoding = Encoding::of(params);
    let stopped = key.encrypt_as_with(&values, encoding, 2, &stop);
    assert_eq!(stopped.unwrap_err().kind(), "interrupted");
    let all = 8 * values.len() * key.resting_role().width(params);
    let taken = seen.into_inner().saturating_sub(before);
    assert!(all > 64 << 20 && taken < all / 8, "{taken} of {all} bytes");
}

/// A set that implies gigabytes, claimed by a file of some KiB.
fn bombs_of_keys(key: &SecretKey, trust: Trust) {
    let grow = |row: &mut serde_json::Value| {
        row["polynomial_size"] = 65536.into();
        row["lwe_dimension"] = 16384.into();
    };
    let evaluation = key.evaluation_key().unwrap().to_bytes().unwrap();
    let bomb = with_params(&evaluation, grow);
    let bad = || {
        assert_eq!(
            EvaluationKey::from_bytes(&bomb, trust).err().map(|e| e.kind()),
            Some("bad_file")
        )
    };
    assert!(most(bad) < SPARE);
    let bomb = edit(&bomb, |h, _| {
        h["bootstrap"]["shape"] = json!([16384, 1, 2, 65536]);
        h["bootstrap"]["data_offsets"] = json!([0, 1u64 << 34]);
    });
    let bad = || {
        assert_eq!(
            EvaluationKey::from_bytes(&bomb, trust).err().map(|e| e.kind()),
            Some("bad_file")
        )
    };
    assert!(most(bad) < SPARE);
    let bomb = with_params(&key.to_bytes().unwrap(), grow);
    let bad = || {
        assert_eq!(SecretKey::from_bytes(&bomb, trust).err().map(|e| e.kind()), Some("bad_file"))
    };
    assert!(most(bad) < SPARE);
}

/// The densest contents of circuits and instructions, each repeated to about a megabyte.
fn texts() {
    let each =
        |count: usize, item: &dyn Fn(usize) -> String| -> String { (0..count).map(item).collect() };
    let head = ".inputs a b\n.outputs o\n";
    let (wide, many) = (100_000, 200_000);
    let circuits = [
        format!("{many} {}\n1 2\n1 1\n", many + 2)
            + &each(many, &|i| format!("2 1 {} {} {} AND\n", i + 1, i, i + 2)),
        format!("0 {many}\n1 {many}\n1 {many}\n{}", " ".repeat(many)),
        format!("0 {wide}\n{wide}{0}\n{wide}{0}\n", " 1".repeat(wide)),
        head.to_string() + &each(wide, &|i| format!(".names {i:x}\n")),
        head.to_string() + &each(wide, &|i| format!(".names a {i:x}\n1 1\n")) + ".names o\n",
        format!(".inputs{}\n.outputs o\n.names o\n", each(many, &|i| format!(" {i:x}"))),
        format!(".inputs{0}\n.outputs{0}\n", each(wide, &|i| format!(" {i:x}"))),
        format!("{head}.names{} o\n{} 1\n", " a".repeat(many), "1".repeat(many)),
        format!("{head}.names a b o\n{}", "11 1\n".repeat(many)),
    ];
    for text in &circuits {
        let most = most(|| Circuit::parse(text).map(drop));
        let shown = &text[..40];
        eprintln!(
            "a circuit takes {:.1} times its text: {shown:?}",
            most as f64 / text.len() as f64
        );
        assert!(most < 64 * text.len() + 4 * SPARE, "{most} for {}: {shown:?}", text.len());
    }
    let instructions = [
        "halt\n".repeat(many),
        "muladd r0 0x0 1*r0\n".repeat(wide),
        format!("muladd r0 0x0{}", " 1*r0".repeat(many)),
        format!("pbs r0 r0 0x0 0x0{}", " 0x0".repeat(many)),
        "a ".repeat(many),
    ];
    for text in &instructions {
        let most = most(|| isa::assemble(text).map(drop));
        eprintln!("instructions take {:.1} times their text", most as f64 / text.len() as f64);
        assert!(most < 64 * text.len() + SPARE, "{most} for {}", text.len());
    }
    let syncs: Vec<u8> =
        [isa::MAGIC].iter().chain(&[6; 200_000]).flat_map(|w| w.to_le_bytes()).collect();
    let most = most(|| isa::decode(&syncs).map(drop));
    assert!(most < 64 * syncs.len() + SPARE, "{most} for {}", syncs.len());
}

/// Numbers of a program of CKKS take their own size, also where they do not load.
fn ckks_numbers(trust: Trust) {
    let mut p = CkksProgram::new(&Chain::new(CkksParams::named("ckks_toy_12").unwrap()).unwrap());
    let mut x = p.input(6, 2048).unwrap();
    for k in 0..100 {
        let mut values = vec![Complex::new(0.25, 0.5); 2048];
        values[k].re = 0.75;
        x = p.add_plain(x, &values).unwrap();
    }
    let mut map = Matrix::zero(2048);
    (0..64).for_each(|k| map.diagonal(k).fill(Complex::from(0.5)));
    let x = p.linear(x, map, 8, 1e9).unwrap();
    p.output(x).unwrap();
    let file = p.to_bytes().unwrap();
    drop(p);
    let honest = most(|| CkksProgram::from_bytes(&file, trust).unwrap());
    assert!(honest < file.len() + SPARE, "{honest} for {}", file.len());
    let longer = edit(&file, |h, d| {
        let end = h["data"]["data_offsets"][1].as_u64().unwrap() as usize;
        d.splice(end..end, [0; 8]);
        h["data"]["shape"] = json!([end / 8 + 1]);
        h["data"]["data_offsets"] = json!([0, end + 8]);
        h["graph"]["data_offsets"] = json!([end + 8, d.len()]);
    });
    let refused = most(|| CkksProgram::from_bytes(&longer, trust).unwrap_err());
    assert!(refused < file.len() + SPARE, "{refused} for {}", file.len());
}

/// The densest things that the instructions of CKKS can say, each repeated to about a megabyte; the most memory for a byte.
fn ckks_programs(trust: Trust) -> f64 {
    let file = ckks_program().to_bytes().unwrap();
    let count = 200_000;
    let varint = [(count & 127 | 128) as u8, (count >> 7 & 127 | 128) as u8, (count >> 14) as u8];
    let limits = [&f64::INFINITY.to_le_bytes()[..], &[0, 0, 1, 0]].concat();
    let repeat = |before: usize, item: &[u8], after: usize| {
        [&vec![0; before], &varint[..], &item.repeat(count), &vec![0; after], &limits].concat()
    };
    let (one, scale) = (1f64.to_le_bytes(), 1e9f64.to_le_bytes());
    let stage = [&[8, 0, 1, 8, 0, 1, 0, 0, 0][..], &one, &[8, 0, 0], &[2, 1], &scale].concat();
    let bodies = [
        repeat(0, &[&[2][..], &one, &[1]].concat(), 6), // registers
        repeat(1, &[12, 0, 0], 5),                      // products of nothing
        repeat(1, &[13, 0, 0], 5),                      // negations
        repeat(1, &[23, 0, 0], 5),                      // sums of nothing
        repeat(2, &[0], 4),                             // arguments
        repeat(4, &[&[8, 0, 0, 2, 1][..], &scale].concat(), 2), // matrices
        repeat(4, &stage, 2),                           // stages
        repeat(5, &[0], 1),                             // polynomials
        repeat(6, &[0], 0),                             // plaintexts
    ];
    let ratios = bodies.iter().map(|body| {
        let bomb = edit(&file, |h, d| {
            *d = body.clone();
            h["data"] = json!({"dtype": "F64", "shape": [0], "data_offsets": [0, 0]});
            h["graph"] =
                json!({"dtype": "U8", "shape": [body.len()], "data_offsets": [0, body.len()]});
        });
        let most = most(|| {
            let kind = CkksProgram::from_bytes(&bomb, trust).err().map(|e| e.kind());
            // Lists that no instruction names are a program, too.
            assert!([None, Some("bad_file")].contains(&kind), "{kind:?}");
        });
        assert!(most < 64 * bomb.len() + SPARE, "{most} for {}: {:?}", bomb.len(), &body[..16]);
        most as f64 / bomb.len() as f64
    });
    ratios.fold(0.0, f64::max)
}

/// The densest things that postcard can say, each repeated to about a megabyte; the most memory for a byte.
fn programs(trust: Trust) -> f64 {
    let file = program(&tiny()).to_bytes().unwrap();
    let count = 200_000;
    let varint = [(count & 127 | 128) as u8, (count >> 7 & 127 | 128) as u8, (count >> 14) as u8];
    let repeat = |before: &[u8], item: &[u8], after: &[u8]| {
        let mut body = before.to_vec();
        body.extend(varint);
        body.extend(item.repeat(count));
        body.extend(after);
        body
    };
    let bodies = [
        repeat(&[], &[0, 1, 2, 1, 0, 0], &[0, 0, 0, 0]), // registers
        repeat(&[0], &[0, 0, 0, 0], &[0, 0, 0]),         // linear combinations of nothing
        repeat(&[0], &[1, 0, 0], &[0, 0, 0]),            // key switches
        repeat(&[0], &[2, 0, 0, 0, 0], &[0, 0, 0]),      // bootstraps
        repeat(&[0, 0], &[0, 2, 1, 0, 0], &[0, 0]),      // tables
        repeat(&[0, 0, 1], &[0], &[2, 1, 0, 0, 0, 0]),   // one table of zeros
        repeat(&[0, 0, 0], &[0], &[0]),                  // inputs
        repeat(&[0, 1, 0, 0], &[0, 0], &[0, 0, 0, 0]),   // terms
    ];
    let ratios = bodies.iter().map(|body| {
        let bomb = edit(&file, |h, d| {
            *d = body.clone();
            h["program"] =
                json!({"dtype": "U8", "shape": [body.len()], "data_offsets": [0, body.len()]});
        });
        let most = most(|| {
            let kind = Program::from_bytes(&bomb, trust).err().map(|e| e.kind());
            assert_eq!(kind, Some("bad_file"));
        });
        assert!(most < 64 * bomb.len() + SPARE, "{most} for {}", bomb.len());
        most as f64 / bomb.len() as f64
    });
    ratios.fold(0.0, f64::max)
}
