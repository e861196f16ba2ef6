//! Encrypted integers of 64 bits and AES-128 beside the crate `tfhe`, all threads each: cases `integers/add64/cpu`, ….
//!
//! Both sides compute on fresh encryptions of the same values, through their public interfaces, and every result is
//! checked. An AES case is the key's expansion and one block of the keystream. Bootstraps are counted: ours by the
//! recorded program, the peer's by its own counter.

use crate::cases::matches;
use crate::peer_tfhe;
use crate::rows::{Clock, Row, Times};
use anyhow::{Context, Result, ensure};
use becalm::apps::aes::{Aes, clear_bytes, ctr_blocks, decrypt_bytes, encrypt_bytes};
use becalm::apps::integer::{Clear, Integers, Operation, Type};
use becalm::apps::{Aim, integer::Recorded};
use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::{Ciphertext, Lwe, SecretKey};
use becalm::math::simd::Level;
use becalm::params::TfheParams;
use std::time::Instant;
use tfhe::prelude::*;
use tfhe::transciphering::{AesFheRoundKeys, AesFheState, AesPlainKey, Transcipherer};
use tfhe::{ConfigBuilder, FheBool, FheUint64};

/// Cases and the operations that they time.
pub const CASES: &[(&str, &str)] = &[
    ("integers/add64/cpu", "add"),
    ("integers/gt64/cpu", "gt"),
    ("integers/select64/cpu", "select"),
    ("integers/bitand64/cpu", "and"),
    ("integers/aes128/cpu", "aes"),
    ("integers/mul64/cpu", "mul"),
    ("integers/div64/cpu", "div"),
];

const A: u64 = 0xd1b5_4a32_d192_ed03;
const B: u64 = 0x0000_0003_9e37_79b9;
const KEY: [u8; 16] = *b"becalm, 16 bytes";
const COUNTER: [u8; 16] = [7; 16];

/// The result of an operation for [`A`] and [`B`]; `select` is asked with true.
fn wanted(operation: &str) -> u64 {
    match operation {
        "add" => A.wrapping_add(B),
        "gt" => u64::from(A > B),
        "and" => A & B,
        "mul" => A.wrapping_mul(B),
        "div" => A / B,
        _ => A,
    }
}

/// One side of a case: runs, checks, and says how many bootstraps the run took.
trait Side {
    fn run(&mut self) -> Result<()>;
    fn check(&self) -> Result<()>;
    fn bootstraps(&self) -> Option<u64>;
}

/// Bootstraps of the peer since the last call, if it was built to count them (feature `count`).
fn counted() -> Option<u64> {
    #[cfg(feature = "count")]
    {
        use tfhe::shortint::server_key::{get_pbs_count, reset_pbs_count};
        let count = get_pbs_count();
        reset_pbs_count();
        Some(count)
    }
    #[cfg(not(feature = "count"))]
    None
}

/// Keys of both sides.
struct Keys {
    secret: SecretKey,
    evaluator: Evaluator,
    client: tfhe::ClientKey,
    short_client: tfhe::shortint::ClientKey,
    short_server: tfhe::shortint::ServerKey,
}

impl Keys {
    fn generate(params: &TfheParams) -> Result<Keys> {
        let secret = SecretKey::generate(params, false)?;
        let evaluator = Evaluator::new(&Cpu::new(0)?, &secret.evaluation_key()?)?;
        let (client, server) = tfhe::generate_keys(ConfigBuilder::default().build());
        tfhe::set_server_key(server);
        let set = tfhe::shortint::parameters::current_params::V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128;
        let (short_client, short_server) = tfhe::shortint::gen_keys(set);
        Ok(Keys { secret, evaluator, client, short_client, short_server })
    }
}

/// A recorded operation of ours.
struct Ours<'a> {
    keys: &'a Keys,
    recorded: Recorded,
    arguments: Vec<Ciphertext>,
    out: Option<Vec<Lwe>>,
    wanted: u64,
}

impl<'a> Ours<'a> {
    fn new(keys: &'a Keys, operation: &str) -> Result<Self> {
        let ty = Type::Uint(64);
        let types = if operation == "select" { vec![Type::Bool, ty, ty] } else { vec![ty; 2] };
        let params = keys.secret.params().clone();
        let recorded = Operation::named(operation)?.circuit(params, Aim::Work, &types)?;
        let values = if types.len() == 3 { vec![1, A, B] } else { vec![A, B] };
        let given = types
            .iter()
            .zip(values)
            .map(|(t, v)| Integers::encrypt(&keys.secret, *t, &[Clear::from(v)]))
            .collect::<becalm::Result<Vec<_>>>()?;
        let arguments = recorded.arguments(&given.iter().collect::<Vec<_>>())?;
        Ok(Ours { keys, recorded, arguments, out: None, wanted: wanted(operation) })
    }
}

impl Side for Ours<'_> {
    fn run(&mut self) -> Result<()> {
        self.out = Some(self.keys.evaluator.run(self.recorded.program(), &self.arguments)?);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let out = self.recorded.results(self.out.clone().context("nothing was run")?)?;
        let got = out[0].decrypt(&self.keys.secret)?[0].low() as u64;
        ensure!(got == self.wanted, "becalm: wanted {:#x}, got {got:#x}", self.wanted);
        Ok(())
    }

    fn bootstraps(&self) -> Option<u64> {
        Some(self.recorded.program().cost().bootstraps as u64)
    }
}

/// One block of AES-CTR keystream of ours, key expansion included.
struct OursAes<'a> {
    keys: &'a Keys,
    aes: Aes,
    arguments: Vec<Ciphertext>,
    out: Option<Vec<Lwe>>,
}

impl<'a> OursAes<'a> {
    fn new(keys: &'a Keys) -> Result<Self> {
        let aes = Aes::ctr(keys.secret.params().clone(), 1, None)?;
        let key = encrypt_bytes(&keys.secret, &KEY)?;
        let blocks = clear_bytes(&key, &ctr_blocks(COUNTER, &[[0; 16]]).concat())?;
        let arguments = aes.arguments(&key, &[&blocks])?;
        Ok(OursAes { keys, aes, arguments, out: None })
    }

    /// The block by an unencrypted run of the recorded circuit, which tests compare with NIST's vectors.
    fn wanted(&self) -> Result<Vec<u64>> {
        Ok(self.aes.run_unencrypted(&KEY, &ctr_blocks(COUNTER, &[[0; 16]]))?)
    }
}

impl Side for OursAes<'_> {
    fn run(&mut self) -> Result<()> {
        self.out = Some(self.keys.evaluator.run(self.aes.program(), &self.arguments)?);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let out = self.aes.bits(self.out.as_ref().context("nothing was run")?)?;
        let got = decrypt_bytes(&self.keys.secret, &out)?;
        let wanted = self.wanted()?;
        let bits = got.iter().flat_map(|b| (0..8).map(move |i| u64::from(b >> i & 1)));
        ensure!(bits.eq(wanted), "becalm: wrong keystream");
        Ok(())
    }

    fn bootstraps(&self) -> Option<u64> {
        Some(self.aes.program().cost().bootstraps as u64)
    }
}

/// A word of the peer.
enum Word {
    Uint(FheUint64),
    Bool(FheBool),
}

/// An operation of the peer's integers.
struct Peer<'a> {
    keys: &'a Keys,
    operation: &'static str,
    a: FheUint64,
    b: FheUint64,
    when: FheBool,
    out: Option<Word>,
    count: Option<u64>,
}

impl<'a> Peer<'a> {
    fn new(keys: &'a Keys, operation: &'static str) -> Self {
        let (a, b) = (FheUint64::encrypt(A, &keys.client), FheUint64::encrypt(B, &keys.client));
        let when = FheBool::encrypt(true, &keys.client);
        Peer { keys, operation, a, b, when, out: None, count: None }
    }
}

impl Side for Peer<'_> {
    fn run(&mut self) -> Result<()> {
        counted();
        let (a, b) = (&self.a, &self.b);
        self.out = Some(match self.operation {
            "add" => Word::Uint(a + b),
            "gt" => Word::Bool(a.gt(b)),
            "select" => Word::Uint(self.when.select(a, b)),
            "and" => Word::Uint(a & b),
            "mul" => Word::Uint(a * b),
            _ => Word::Uint(a / b),
        });
        self.count = counted();
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let got: u64 = match self.out.as_ref().context("nothing was run")? {
            Word::Uint(x) => x.decrypt(&self.keys.client),
            Word::Bool(x) => u64::from(x.decrypt(&self.keys.client)),
        };
        let wanted = wanted(self.operation);
        ensure!(got == wanted, "tfhe: wanted {wanted:#x}, got {got:#x}");
        Ok(())
    }

    fn bootstraps(&self) -> Option<u64> {
        self.count
    }
}

/// The peer's key expansion and one block of keystream.
struct PeerAes<'a> {
    keys: &'a Keys,
    wanted: Vec<u64>,
    out: Option<Vec<tfhe::shortint::Ciphertext>>,
    count: Option<u64>,
}

impl Side for PeerAes<'_> {
    fn run(&mut self) -> Result<()> {
        let key = AesPlainKey::from(KEY).encrypt(&self.keys.short_client);
        counted();
        let server = &self.keys.short_server;
        let mut state = AesFheState::new(AesFheRoundKeys::new(server, &key), COUNTER);
        let stream = state.next_keystream_bits(server, 128);
        self.out =
            Some(stream.map_err(|_| anyhow::anyhow!("tfhe: no keystream"))?.into_raw_parts());
        self.count = counted();
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let out = self.out.as_ref().context("nothing was run")?;
        let bits = out.iter().map(|bit| self.keys.short_client.decrypt(bit));
        ensure!(bits.eq(self.wanted.iter().copied()), "tfhe: another keystream than becalm's");
        Ok(())
    }

    fn bootstraps(&self) -> Option<u64> {
        self.count
    }
}

/// Seconds of runs by turns, each checked: five rounds of what takes a second, one of what takes minutes.
fn alternate(sides: &mut [Box<dyn Side + '_>; 2], quick: bool) -> Result<[Vec<f64>; 2]> {
    let mut samples = [vec![], vec![]];
    let mut slowest = 0f64;
    for round in 0..9 {
        let limit = match slowest {
            30.0.. => 1,
            3.0.. => 3,
            _ => 9,
        };
        if round >= if quick { limit.min(3) } else { limit } {
            break;
        }
        for turn in 0..2 {
            let i = (turn + round) % 2;
            let start = Instant::now();
            sides[i].run()?;
            let seconds = start.elapsed().as_secs_f64();
            slowest = slowest.max(seconds);
            samples[i].push(seconds * 1e3);
            sides[i].check()?;
        }
    }
    Ok(samples)
}

/// The cases whose name matches, one row each; `done` is told after every case.
///
/// # Errors
/// A wrong result of either side.
pub fn run(
    pattern: &str,
    quick: bool,
    huge: bool,
    mut done: impl FnMut(&[Row]) -> Result<()>,
) -> Result<Vec<Row>> {
    let params = TfheParams::named("tfhe_2_2")?;
    let keys = Keys::generate(params)?;
    let mut rows = vec![];
    for (name, operation) in CASES.iter().filter(|c| matches(pattern, c.0)) {
        eprintln!("{name} …");
        let mut sides: [Box<dyn Side + '_>; 2] = if *operation == "aes" {
            let ours = OursAes::new(&keys)?;
            let wanted = ours.wanted()?;
            [Box::new(ours), Box::new(PeerAes { keys: &keys, wanted, out: None, count: None })]
        } else {
            [Box::new(Ours::new(&keys, operation)?), Box::new(Peer::new(&keys, operation))]
        };
        let [ours, peer] =
            alternate(&mut sides, quick).with_context(|| name.to_string())?.map(Times::of);
        rows.push(Row {
            case: name.to_string(),
            backend: "cpu".into(),
            ours_ms: Some(ours.median_ms),
            peer: "tfhe".into(),
            peer_version: peer_tfhe::VERSION.into(),
            peer_ms: Some(peer.median_ms),
            ratio: Some(peer.median_ms / ours.median_ms),
            params: params.name.to_string(),
            security_bits: params.security_bits,
            log2_pfail: params.log2_pfail,
            peer_params: None,
            peer_log2_pfail: None,
            batch: 1,
            threads: rayon::current_num_threads(),
            clock: Clock::Wall,
            simd: Level::best().name().into(),
            peer_simd: if cfg!(feature = "peer-avx512") { "avx512" } else { "avx2" }.into(),
            huge_pages: huge,
            bootstraps: sides[0].bootstraps(),
            peer_bootstraps: sides[1].bootstraps(),
            ours: Some(ours),
            peer_times: Some(peer),
        });
        done(&rows)?;
    }
    Ok(rows)
}
