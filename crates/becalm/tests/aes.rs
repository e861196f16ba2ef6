//! AES-128 on encrypted bits against the vectors of NIST: the circuits run unencrypted, their noise, and one block encrypted.

use becalm::apps::aes::{
    Aes, Content, clear_bytes, ctr_blocks, ctr_unencrypted, decrypt_bytes, encrypt_bytes,
};
use becalm::apps::integer::Type;
use becalm::backend::{Cpu, Evaluator};
use becalm::cipher::SecretKey;
use becalm::cipher::file::{Kind, Trust, inspect};
use becalm::params::TfheParams;
use becalm::{Error, cipher::Lwe};
use std::sync::Arc;

fn params(name: &str) -> Arc<TfheParams> {
    Arc::new(TfheParams::named(name).unwrap().clone())
}

fn block(hex: &str) -> [u8; 16] {
    u128::from_str_radix(hex, 16).unwrap().to_be_bytes()
}

fn bytes(bits: &[u64]) -> Vec<u8> {
    bits.chunks(8).map(|b| b.iter().rev().fold(0, |x, bit| x << 1 | *bit as u8)).collect()
}

#[test]
fn ecb_gives_the_vectors_of_fips_197_and_sp_800_38a() {
    let aes = Aes::ecb(params("tfhe_2_2"), 1).unwrap();
    let run =
        |key: &str, text: &str| bytes(&aes.run_unencrypted(&block(key), &[block(text)]).unwrap());
    let fips = run("000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff");
    assert_eq!(fips, block("69c4e0d86a7b0430d8cdb78070b4c55a"));
    let key = "2b7e151628aed2a6abf7158809cf4f3c";
    assert_eq!(
        run(key, "6bc1bee22e409f96e93d7e117393172a"),
        block("3ad77bb40d7a3660a89ecaf32466ef97")
    );
    assert_eq!(
        run(key, "f69f2445df4f9b17ad2b417be66c3710"),
        block("7b0c785e27e8ad3f8223207104725dd4")
    );
    let zero = "00000000000000000000000000000000";
    assert_eq!(run(zero, zero), block("66e94bd4ef8a2c3b884cfa59ca342b2e"));
}

/// SP 800-38A, F.5.1: the first two blocks.
const COUNTER: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
const SENT: [&str; 2] = ["874d6191b620e3261bef6864990db6ce", "9806f66b7970fdff8617187bb9fffdff"];
const MESSAGE: [&str; 2] = ["6bc1bee22e409f96e93d7e117393172a", "ae2d8a571e03ac9c9eb76fac45af8e51"];

#[test]
fn ctr_turns_what_aes_encrypted_into_the_message() {
    let key = block("2b7e151628aed2a6abf7158809cf4f3c");
    let data = SENT.map(block);
    let aes = Aes::ctr(params("tfhe_2_2"), 2, None).unwrap();
    let blocks = ctr_blocks(block(COUNTER), &data);
    let message = MESSAGE.map(block).concat();
    assert_eq!(bytes(&aes.run_unencrypted(&key, &blocks).unwrap()), message);
    let words = Aes::ctr(params("tfhe_2_2"), 2, Some(Type::Uint(32))).unwrap();
    let digits = words.run_unencrypted(&key, &blocks).unwrap();
    let back: Vec<u8> =
        digits.chunks(4).map(|d| d.iter().rev().fold(0, |x, v| x << 2 | *v as u8)).collect();
    assert_eq!(back, message);
}

#[test]
fn one_block_stays_within_noise_and_costs_what_is_claimed() {
    let p = params("tfhe_2_2");
    let aes = Aes::ecb(p.clone(), 1).unwrap();
    let fresh = becalm::tfhe::noise::bootstrap_output(&p);
    let (cost, found) = (aes.program().cost(), aes.program().follow(&vec![fresh; 256]).unwrap());
    println!("{cost:?}, log2 p_fail {:.1}", found.log2_pfail);
    // 160 S-boxes of the block and 40 of the key.
    assert_eq!(cost.bootstraps, 200 * 26);
}

#[test]
#[ignore = "one block encrypted and another transciphered, some 30 s: make test-full"]
fn full_size_block_and_stream() {
    let secret = SecretKey::generate(&params("tfhe_2_2"), false).unwrap();
    let keys = secret.evaluation_key().unwrap();
    let evaluator = Evaluator::new(&Cpu::new(0).unwrap(), &keys).unwrap();
    let key = encrypt_bytes(&secret, &block("2b7e151628aed2a6abf7158809cf4f3c")).unwrap();
    let text = encrypt_bytes(&secret, &block(MESSAGE[0])).unwrap();
    let ecb = Aes::ecb(secret.params().clone(), 1).unwrap();
    let results = evaluator.run(ecb.program(), &ecb.arguments(&key, &[&text]).unwrap()).unwrap();
    let found = decrypt_bytes(&secret, &ecb.bits(&results).unwrap()).unwrap();
    assert_eq!(found, block("3ad77bb40d7a3660a89ecaf32466ef97"));
    let ctr = Aes::ctr(secret.params().clone(), 1, Some(Type::Uint(64))).unwrap();
    let blocks = ctr_blocks(block(COUNTER), &[block(SENT[0])]).concat();
    let blocks = clear_bytes(&key, &blocks).unwrap();
    let results = evaluator.run(ctr.program(), &ctr.arguments(&key, &[&blocks]).unwrap()).unwrap();
    let words = ctr.integers(&results).unwrap().decrypt(&secret).unwrap();
    let found: Vec<u8> = words.iter().flat_map(|w| w.to_bytes()[..8].to_vec()).collect();
    assert_eq!(found, block(MESSAGE[0]));
}

#[test]
fn the_clients_side_is_what_everybody_has() {
    let (key, counter) = (block("2b7e151628aed2a6abf7158809cf4f3c"), block(COUNTER));
    let message = MESSAGE.map(block).concat();
    // Any length: a stream cut short is the beginning of the stream.
    for n in [0, 1, 15, 16, 17, 32] {
        let mut data = message[..n].to_vec();
        ctr_unencrypted(&key, &counter, &mut data);
        assert_eq!(data, SENT.map(block).concat()[..n]);
    }
    // The counter wraps at 2^128 as the circuit's does.
    let mut zeros = [0; 32];
    ctr_unencrypted(&key, &[0xff; 16], &mut zeros);
    let aes = Aes::ctr(params("tfhe_2_2"), 2, None).unwrap();
    let blocks = ctr_blocks([0xff; 16], &[[0; 16]; 2]);
    assert_eq!(bytes(&aes.run_unencrypted(&key, &blocks).unwrap()), zeros);
}

#[test]
fn bytes_and_keys_travel_as_what_they_are() {
    let secret = SecretKey::generate(&params("toy_2_2"), true).unwrap();
    let text = *b"becalm, 16 bytes";
    let bits = encrypt_bytes(&secret, &text).unwrap();
    let path = std::env::temp_dir().join(format!("becalm-bits-{}", std::process::id()));
    for content in [Content::Bytes, Content::Key] {
        for seeded in [false, true] {
            content.save(&bits, &path, seeded).unwrap();
            let (found, back) = Content::load(&path, Trust::insecure()).unwrap();
            assert_eq!((found, decrypt_bytes(&secret, &back).unwrap()), (content, text.to_vec()));
        }
        assert_eq!(inspect(&path).unwrap().kind, Kind::Bits);
        // 128 bodies of 8 bytes, and no masks.
        assert!(std::fs::metadata(&path).unwrap().len() < 128 * 8 + 3000);
        assert!(matches!(Content::load(&path, Trust::default()), Err(Error::Insecure(_))));
        assert!(matches!(Lwe::load(&path, Trust::insecure()), Err(Error::BadFile(_))));
    }
    std::fs::remove_file(&path).unwrap();
    let refused = |r: becalm::Result<Vec<u8>>| assert!(matches!(r, Err(Error::BadInput(_))));
    refused(Content::Key.to_bytes(&encrypt_bytes(&secret, &text[..15]).unwrap(), false));
    refused(Content::Bytes.to_bytes(&bits.slice(0..7).unwrap(), false));
    refused(Content::Bytes.to_bytes(&secret.encrypt(&[1; 8]).unwrap(), false));
}
