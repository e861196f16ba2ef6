#![no_main]

use libfuzzer_sys::fuzz_target;

// A request that is accepted is within the limits, and is written as it was read.
fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = becalm_serve::Request::parse(bytes) {
        let again = becalm_serve::Request::parse(&request.to_bytes().unwrap()).unwrap();
        assert_eq!(again, request);
    }
    let _ = becalm::job::admit(bytes, bytes.len() as u64);
});
