//! Files: everything written is read again unchanged, on disk and in memory, by this version and by later ones.

mod harness;

use becalm::Error;
use becalm::apps::aes::{Content, encrypt_bytes};
use becalm::apps::integer::{Clear, Integers, Type};
use becalm::cipher::file::{Kind, Trust, inspect};
use becalm::cipher::{Encoding, EvaluationKey, Glwe, KeyRole, Lwe, Output, SecretKey};
use becalm::params::TfheParams;
use becalm::program::Program;
use becalm::tfhe::Table;
use becalm::{Progress, UNWATCHED};
use harness::{TOY, program, tiny, toy_key};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const ANY: fn() -> Trust = Trust::insecure;

/// A separate folder for a test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("becalm-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn toy() -> &'static TfheParams {
    TfheParams::named(TOY).unwrap()
}

#[test]
fn a_secret_key_survives() {
    let folder = Folder::new("secret");
    let path = folder.at("key");
    let key = toy_key();
    key.save(&path).unwrap();
    let again = SecretKey::load(&path, ANY()).unwrap();
    assert_eq!(again.id(), key.id());
    assert_eq!(again.params(), key.params());
    for role in [KeyRole::Small, KeyRole::Big] {
        assert_eq!(again.expose(role), key.expose(role));
    }
    let ct = key.encrypt(&[1, 0, 1]).unwrap();
    assert_eq!(again.decrypt(&ct).unwrap(), [1, 0, 1]);
    assert_eq!(&again.to_bytes().unwrap()[..], fs::read(&path).unwrap());
}

#[cfg(unix)]
#[test]
fn a_secret_key_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("mode");
    let path = folder.at("key");
    // Also where a readable file stood before.
    fs::write(&path, "old").unwrap();
    toy_key().save(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A new file takes a name; of what else has that name nothing would be left.
#[cfg(unix)]
#[test]
fn only_files_are_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let folder = Folder::new("socket");
    let path = folder.at("socket");
    let _listens = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let ct = toy_key().encrypt(&[1]).unwrap();
    let refused = ct.save(&path).unwrap_err();
    assert!(matches!(refused, Error::Io(_)), "{refused}");
    assert!(refused.to_string().contains("socket"), "{refused}");
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn an_evaluation_key_survives_in_memory_and_mapped() {
    let folder = Folder::new("evaluation");
    let path = folder.at("key");
    for name in ["toy_boolean_ks_pbs", "toy_boolean", "toy_1_1_p"] {
        let params = TfheParams::named(name).unwrap();
        let key = SecretKey::generate(params, true).unwrap().evaluation_key().unwrap();
        key.save(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(key.to_bytes().unwrap(), bytes);
        let mapped = EvaluationKey::load(&path, ANY()).unwrap();
        let copied = EvaluationKey::from_bytes(&bytes, ANY()).unwrap();
        for again in [mapped, copied] {
            assert_eq!(again.key_id(), key.key_id());
            assert_eq!(again.params(), key.params());
            assert_eq!(again.bootstrap_words(), key.bootstrap_words());
            assert_eq!(again.key_switch_words(), key.key_switch_words());
        }
    }
}

#[test]
fn a_mapped_key_outlives_its_file() {
    let folder = Folder::new("replaced");
    let path = folder.at("key");
    let key = SecretKey::generate(&tiny(), true).unwrap().evaluation_key().unwrap();
    key.save(&path).unwrap();
    let mapped = EvaluationKey::load(&path, ANY()).unwrap();
    let other = SecretKey::generate(&tiny(), true).unwrap().evaluation_key().unwrap();
    other.save(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(mapped.bootstrap_words(), key.bootstrap_words());
}

#[test]
fn ciphertexts_survive() {
    let folder = Folder::new("lwe");
    let path = folder.at("ct");
    let key = toy_key();
    let encodings =
        [Encoding::of(toy()), Encoding::padded(5).unwrap(), Encoding::cyclic(7).unwrap()];
    for encoding in encodings {
        for values in [&[][..], &[1], &[0, 1, 1, 0]] {
            let ct = key.encrypt_as(values, encoding, 2).unwrap();
            ct.save(&path).unwrap();
            let again = Lwe::load(&path, ANY()).unwrap();
            assert_eq!(again.words(), ct.words());
            assert_eq!(again.noise_variance(), ct.noise_variance());
            assert_eq!((again.range(), again.encoding()), ((0, 1), encoding));
            assert!(again.require_like(&ct, "test").is_ok());
            assert_eq!(key.decrypt(&again).unwrap(), values);
        }
    }
    let last = Encoding::cyclic(7).unwrap();
    let (input, output) = (Encoding::padded(8).unwrap(), Encoding::padded(5).unwrap());
    let table = Table::many(toy(), input, output, &[&[4, 1, 2], &[3, 3, 3]]).unwrap();
    let table = table.extract(255, last).unwrap();
    let glwe = key.encrypt_table(&table).unwrap();
    // Whole ranges: those of the entries are as secret as these.
    let whole = |o: &Output| Output { range: (0, o.encoding.values as i64 - 1), ..*o };
    let outputs: Vec<Output> = table.outputs().iter().map(whole).collect();
    assert_ne!(outputs, table.outputs());
    assert_eq!((glwe.input(), glwe.limit(), glwe.outputs()), (input, 2, &outputs[..]));
    glwe.save(&path).unwrap();
    let again = Glwe::load(&path, ANY()).unwrap();
    assert_eq!(again.words(), glwe.words());
    assert_eq!(again.noise_variance(), glwe.noise_variance());
    assert_eq!((again.key_id(), again.params()), (glwe.key_id(), glwe.params()));
    assert_eq!((again.input(), again.limit(), again.outputs()), (input, 2, &outputs[..]));
}

#[test]
fn every_set_of_the_table_comes_back_exactly() {
    for params in TfheParams::all() {
        let bytes = program(params).to_bytes().unwrap();
        let again = Program::from_bytes(&bytes, ANY()).unwrap();
        assert_eq!(**again.params(), *params);
        let strict = Program::from_bytes(&bytes, Trust::default());
        assert_eq!(strict.is_ok(), params.require_secure(false).is_ok());
    }
}

#[test]
fn a_program_survives() {
    let folder = Folder::new("program");
    let path = folder.at("program");
    let p = program(toy());
    p.save(&path).unwrap();
    assert_eq!(Program::load(&path, ANY()).unwrap(), p);
    let empty = Program::new(p.params().clone());
    empty.save(&path).unwrap();
    assert_eq!(Program::load(&path, ANY()).unwrap(), empty);
}

#[test]
fn noise_below_a_fresh_encryption_is_raised_to_it() {
    let ct = toy_key().encrypt(&[1]).unwrap();
    let trivial = Lwe::trivial(&ct, &[1]).unwrap();
    assert_eq!(trivial.noise_variance(), 0.0);
    let again = Lwe::from_bytes(&trivial.to_bytes().unwrap(), ANY()).unwrap();
    assert_eq!(again.noise_variance(), ct.noise_variance());
    // A claim above is kept to the last bit, one above 1 says no more than 1.
    let noisy = ct.scale(3).unwrap();
    let again = Lwe::from_bytes(&noisy.to_bytes().unwrap(), ANY()).unwrap();
    assert_eq!(again.noise_variance(), noisy.noise_variance());
    let lost = ct.scale(1 << 60).unwrap();
    let again = Lwe::from_bytes(&lost.to_bytes().unwrap(), ANY()).unwrap();
    assert_eq!(again.noise_variance(), 1.0);
}

#[test]
fn ranges_are_stored_modulo_the_parts_of_the_torus() {
    let ct = toy_key().encrypt_as(&[1], Encoding::padded(4).unwrap(), 3).unwrap();
    let stored = |ct: &Lwe| Lwe::from_bytes(&ct.to_bytes().unwrap(), ANY()).unwrap().range();
    assert_eq!(stored(&ct), (0, 2));
    assert_eq!(stored(&ct.negate().unwrap()), (-2, 0));
    // 8 parts: 1001 = 1 modulo 8.
    assert_eq!(stored(&ct.add_constant(1001).unwrap()), (1, 3));
    assert_eq!(stored(&ct.add_constant(-1001).unwrap()), (7, 9));
    assert_eq!(stored(&ct.scale(5).unwrap()), (0, 7));
    assert_eq!(stored(&ct.scale(i64::MIN / 2).unwrap()), (0, 7));
}

#[test]
fn equal_contents_are_equal_files() {
    let ct = toy_key().encrypt(&[1, 1]).unwrap();
    let bytes = ct.to_bytes().unwrap();
    assert_eq!(bytes, ct.clone().to_bytes().unwrap());
    assert_eq!(bytes, Lwe::from_bytes(&bytes, ANY()).unwrap().to_bytes().unwrap());
}

#[test]
fn the_files_are_safetensors() {
    let key = SecretKey::generate(&tiny(), true).unwrap();
    let evaluation = key.evaluation_key().unwrap();
    let bytes = evaluation.to_bytes().unwrap();
    let (n, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(n % 8, 0);
    let entries = metadata.metadata().as_ref().unwrap();
    assert_eq!(entries["format"], Kind::EvaluationKey.name());
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let bootstrap = file.tensor("bootstrap").unwrap();
    assert_eq!(bootstrap.shape(), [4, 1, 2, 256]);
    assert_eq!(bootstrap.dtype(), safetensors::Dtype::U64);
    assert_eq!(file.tensor("seed").unwrap().data().len(), 32);
    let secret = key.to_bytes().unwrap();
    let file = safetensors::SafeTensors::deserialize(&secret).unwrap();
    let small = file.tensor("small").unwrap();
    assert_eq!(small.data()[8..16], key.expose(KeyRole::Small)[1].to_le_bytes());
}

#[test]
fn nothing_is_left_of_a_write_that_fails() {
    let folder = Folder::new("fails");
    let ct = toy_key().encrypt(&[1]).unwrap();
    let missing = folder.at("no such folder").join("ct");
    assert!(matches!(ct.save(&missing), Err(Error::Io(_))));
    assert!(matches!(ct.save(folder.at("..")), Err(Error::Io(_))));
    // A folder stands where the file should go: the rename fails after everything was written.
    let taken = folder.at("taken");
    fs::create_dir(&taken).unwrap();
    assert!(matches!(ct.save(&taken), Err(Error::Io(_))));
    let names: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names, ["taken"]);
    assert!(matches!(Lwe::load(&taken, ANY()), Err(Error::BadFile(_))));
    assert!(matches!(Lwe::load(folder.at("none"), ANY()), Err(Error::Io(_))));
}

/// How often work asks whether it is to stop, and the kinds of its errors when it is told to at the first time, in the middle and at
/// the last.
fn stopped<T>(work: impl Fn(Progress) -> becalm::Result<T>) -> (usize, [Option<&'static str>; 3]) {
    let run = |stop: usize| {
        let asked = AtomicUsize::new(0);
        let told = work(&|_, _| match asked.fetch_add(1, Relaxed) == stop {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        (asked.into_inner(), told.err().map(|e| e.kind()))
    };
    let (all, none) = run(usize::MAX);
    assert_eq!(none, None);
    (all, [0, all / 2, all - 1].map(|at| run(at).1))
}

/// Work on large files of ciphertexts can stop all along, and leaves nothing.
#[test]
fn large_files_can_be_stopped() {
    let folder = Folder::new("stopped");
    let (path, old) = (folder.at("ct"), folder.at("old"));
    let ct = toy_key().encrypt(&[1; 3000]).unwrap();
    let lanes: Vec<u64> = (0..3000).rev().collect();
    let (bytes, seeded) = (ct.to_bytes().unwrap(), ct.to_bytes_seeded().unwrap());
    fs::write(&old, &bytes).unwrap();
    let pair = secret_of_pairs();
    let digits = Integers::encrypt(&pair, Type::Uint(4), &[Clear::from(9u64); 900]).unwrap();
    let integers = digits.to_bytes(false).unwrap();
    let bits = encrypt_bytes(&pair, &[7; 200]).unwrap();
    let content = Content::Bytes.to_bytes(&bits, false).unwrap();
    let again = ct.file(false, UNWATCHED).unwrap();
    let sealed = again.seal(UNWATCHED).unwrap();
    let all = [
        stopped(|p| ct.file(false, p)?.save_with(&old, p)),
        stopped(|p| ct.file(true, p)),
        stopped(|p| again.seal(p).map(drop)),
        stopped(|p| sealed.fill(&mut vec![0; sealed.len()], p)),
        stopped(|p| Lwe::load_with(&old, ANY(), p)),
        stopped(|p| Lwe::from_bytes_with(&bytes, ANY(), p)),
        stopped(|p| Lwe::from_bytes_with(&seeded, ANY(), p)),
        stopped(|p| ct.gather_with(&lanes, p)),
        stopped(|p| Integers::file(Type::Uint(4), digits.digits(), false, p)?.seal(p).map(drop)),
        stopped(|p| Integers::from_bytes_with(&integers, ANY(), p)),
        stopped(|p| Content::Bytes.file(&bits, false, p)?.seal(p).map(drop)),
        stopped(|p| Content::from_bytes_with(&content, ANY(), p)),
    ];
    for (i, (asked, kinds)) in all.into_iter().enumerate() {
        assert!(asked >= 3, "work {i} asks {asked} times");
        assert_eq!(kinds, [Some("interrupted"); 3], "work {i}");
    }
    assert_eq!(fs::read(&old).unwrap(), bytes, "the old file, or the same anew");
    fs::remove_file(&old).unwrap();
    let stop: Progress = &|done, all| match 2 * done < all {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let stopped = ct.file(false, stop).unwrap().save_with(&path, stop);
    assert_eq!(stopped.unwrap_err().kind(), "interrupted");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "no part of a file is left");
    // Memory that is filled holds the file.
    let mut filled = vec![0; sealed.len()];
    sealed.fill(&mut filled, UNWATCHED).unwrap();
    assert_eq!(filled, bytes);
    assert_eq!(sealed.fill(&mut filled[1..], UNWATCHED).unwrap_err().kind(), "bad_input");
}

fn secret_of_pairs() -> SecretKey {
    SecretKey::generate(TfheParams::named("toy_2_2").unwrap(), true).unwrap()
}

/// Ciphertexts are taken from any places in one piece; those in their order are still a part of their encryption.
#[test]
fn ciphertexts_of_any_places_are_gathered() {
    let key = toy_key();
    let values: Vec<u64> = (0..50).map(|i| i * i % 7 % 2).collect();
    let ct = key.encrypt(&values).unwrap();
    let bits = |ct: &Lwe| key.decrypt(ct).unwrap();
    let lanes: Vec<u64> = vec![49, 3, 4, 5, 5, 0, 48, 49];
    let taken = ct.gather(&lanes).unwrap();
    let wanted: Vec<u64> = lanes.iter().map(|lane| values[*lane as usize]).collect();
    assert_eq!(bits(&taken), wanted);
    assert_eq!(taken.range(), ct.range());
    assert_eq!(taken.to_bytes_seeded().unwrap_err().kind(), "unsupported");
    let run = ct.gather(&[7, 8, 9]).unwrap();
    assert_eq!(run.words(), ct.slice(7..10).unwrap().words());
    assert_eq!(run.to_bytes_seeded(), ct.slice(7..10).unwrap().to_bytes_seeded());
    assert!(ct.gather(&[]).unwrap().is_empty());
    for outside in [&[50][..], &[0, u64::MAX], &[u64::MAX, 0]] {
        assert_eq!(ct.gather(outside).unwrap_err().kind(), "bad_input");
    }
}

/// A path that names no file says so.
#[test]
fn a_path_without_a_name_is_a_folder() {
    let ct = toy_key().encrypt(&[1]).unwrap();
    for path in ["/", "..", "/.."] {
        let refused = ct.save(path).unwrap_err().to_string();
        let wanted = format!("wanted the name of a file, got {path}, which is a folder");
        assert!(refused.contains(&wanted), "{refused}");
    }
}

#[test]
fn inspection_tells_what_a_file_claims_and_no_secret() {
    let folder = Folder::new("inspect");
    let path = folder.at("file");
    let ct = toy_key().encrypt(&[1, 0, 1]).unwrap();
    ct.save(&path).unwrap();
    let d = inspect(&path).unwrap();
    assert_eq!((d.kind, d.in_table), (Kind::Lwe, true));
    assert_eq!((d.key, d.role), (Some(ct.key_id()), Some(ct.role())));
    assert_eq!((d.encoding, d.range), (Some(ct.encoding()), Some(ct.range())));
    assert_eq!(d.noise, Some(ct.noise_variance()));
    assert_eq!((d.tensors[0].shape.as_slice(), d.tensors[0].bytes), (&[3, 257][..], 3 * 257 * 8));
    assert_eq!(d.bytes, fs::metadata(&path).unwrap().len());
    let table = Table::from_fn(toy(), |m| 1 - m).unwrap();
    toy_key().encrypt_table(&table).unwrap().save(&path).unwrap();
    let d = inspect(&path).unwrap();
    assert_eq!((d.kind, d.encoding, d.range), (Kind::Glwe, Some(table.input()), Some((0, 1))));
    SecretKey::generate(&tiny(), true).unwrap().save(&path).unwrap();
    let d = inspect(&path).unwrap();
    assert_eq!((d.kind, d.in_table, d.noise), (Kind::SecretKey, false, None));
    assert_eq!(d.params, tiny().name);
    fs::write(&path, "no header").unwrap();
    assert!(matches!(inspect(&path), Err(Error::BadFile(_))));
}

/// Files of version 1 as they were first written. They must load for ever; never write them again.
#[test]
fn files_of_the_first_version_still_load() {
    let at =
        |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let key = SecretKey::load(at("secret_key.becalm"), ANY()).unwrap();
    assert_eq!(*key.params(), std::sync::Arc::new(tiny()));
    let ct = Lwe::load(at("lwe.becalm"), ANY()).unwrap();
    assert_eq!(key.decrypt(&ct).unwrap(), [1, 0, 0, 1]);
    let evaluation = EvaluationKey::load(at("evaluation_key.becalm"), ANY()).unwrap();
    assert_eq!(evaluation.key_id(), key.id());
    let digest = |words: &[u64]| words.iter().fold(0u64, |d, w| d.rotate_left(5) ^ w);
    let sums: Vec<u64> =
        fs::read_to_string(at("sums.txt")).unwrap().lines().map(|l| l.parse().unwrap()).collect();
    let glwe = Glwe::load(at("glwe.becalm"), ANY()).unwrap();
    let table = Table::from_fn(&tiny(), |m| 1 - m).unwrap();
    assert_eq!((glwe.input(), glwe.limit(), glwe.outputs()), (table.input(), 1, table.outputs()));
    // The expanded words: the streams of masks are part of the format.
    assert_eq!(
        sums,
        [evaluation.bootstrap_words(), evaluation.key_switch_words(), glwe.words().to_vec()]
            .map(|w| digest(&w))
    );
    assert_eq!(Program::load(at("program.becalm"), ANY()).unwrap(), program(toy()));
}

/// Writes the vectors: `cargo test --test files -- --ignored write_vectors`, once for a version of the format. Never
/// over those that are there.
#[test]
#[ignore = "writes the committed vectors"]
fn write_vectors() {
    let at =
        |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    fs::create_dir(at("")).unwrap();
    let key = SecretKey::generate(&tiny(), true).unwrap();
    let evaluation = key.evaluation_key().unwrap();
    let glwe = key.encrypt_table(&Table::from_fn(&tiny(), |m| 1 - m).unwrap()).unwrap();
    key.save(at("secret_key.becalm")).unwrap();
    key.encrypt(&[1, 0, 0, 1]).unwrap().save(at("lwe.becalm")).unwrap();
    evaluation.save(at("evaluation_key.becalm")).unwrap();
    glwe.save(at("glwe.becalm")).unwrap();
    program(toy()).save(at("program.becalm")).unwrap();
    let digest = |words: &[u64]| words.iter().fold(0u64, |d, w| d.rotate_left(5) ^ w);
    let sums = [evaluation.bootstrap_words(), evaluation.key_switch_words(), glwe.words().to_vec()];
    fs::write(at("sums.txt"), sums.map(|w| format!("{}\n", digest(&w))).concat()).unwrap();
}

#[test]
fn shapes_are_written_if_they_fit() {
    let x = toy_key().encrypt(&[1, 0, 1]).unwrap();
    let x = Lwe::from_bytes(&x.to_bytes().unwrap(), Trust::insecure()).unwrap();
    let shaped = |shape: &[usize]| {
        let path = std::env::temp_dir().join(format!("becalm-shape-{}", std::process::id()));
        let saved = x.file(false, UNWATCHED)?.shaped(shape)?.save_with(&path, UNWATCHED);
        let read = saved.and_then(|()| Lwe::load_array(&path, Trust::insecure(), UNWATCHED));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        read.map(|found| (found.1, bytes))
    };
    assert_eq!(shaped(&[3, 1, 1]).unwrap().0, [3, 1, 1]);
    // The shape that a file has without saying so is not said.
    let (shape, bytes) = shaped(&[3]).unwrap();
    assert!(shape == [3] && bytes == x.to_bytes().unwrap());
    for wrong in [&[][..], &[2], &[2, 2], &[0, 3], &[usize::MAX, 3], &[3; 33]] {
        assert!(matches!(shaped(wrong), Err(Error::BadInput(_))), "{wrong:?}");
    }
    let [none, one] = [x.slice(0..0).unwrap(), x.slice(0..1).unwrap()];
    for (batch, shape) in [(&none, &[0, 5][..]), (&none, &[5, 0]), (&one, &[]), (&one, &[1, 1])] {
        let sealed = batch.file(false, UNWATCHED).unwrap().shaped(shape).unwrap();
        let sealed = sealed.seal(UNWATCHED).unwrap();
        let mut file = vec![0; sealed.len()];
        sealed.fill(&mut file, UNWATCHED).unwrap();
        let read = Lwe::array_from_bytes(&file, Trust::insecure(), UNWATCHED).unwrap();
        assert_eq!((read.1.as_slice(), read.0.len()), (shape, batch.len()));
    }
}
