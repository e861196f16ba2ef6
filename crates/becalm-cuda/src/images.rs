//! The code that a driver loads: cubins and PTX compiled ahead; NVRTC compiles the rest from the sources.

use crate::compile::fingerprint;
use crate::kernels::Kernels;
use std::sync::OnceLock;

/// Cubins and PTX of `$BECALM_CUBINS` when this crate was built, by file name.
static IMAGES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// Names and bytes of the images that this build has and uses: none that were made of other sources.
pub fn images() -> impl Iterator<Item = (&'static str, usize)> {
    let images = IMAGES.iter().filter(|(name, _)| *name != "kernels.sources" && current());
    images.map(|(name, bytes)| (*name, bytes.len()))
}

/// Whether the images were made of these sources.
fn current() -> bool {
    static CURRENT: OnceLock<bool> = OnceLock::new();
    *CURRENT.get_or_init(|| made_of(IMAGES, fingerprint))
}

/// The image of kernels for a device, if this build has one that was made of its sources.
pub fn image(kernels: &Kernels, capability: (u32, u32)) -> Option<&'static [u8]> {
    pick(IMAGES, kernels, capability).filter(|_| current())
}

/// Whether images were made from sources with this number: `kernels.sources` holds it and the compiler's name.
fn made_of(images: &[(&str, &[u8])], number: impl Fn(&str) -> u64) -> bool {
    let text = images.iter().find(|(name, _)| *name == "kernels.sources").map(|(_, text)| *text);
    let text = text.and_then(|text| std::str::from_utf8(text).ok()).and_then(|t| t.split_once(' '));
    text.is_some_and(|(found, compiler)| found == format!("{:016x}", number(compiler)))
}

fn pick<'a>(
    images: &[(&str, &'a [u8])],
    kernels: &Kernels,
    capability: (u32, u32),
) -> Option<&'a [u8]> {
    let of = |kind: &str| {
        let name = format!("{}.{kind}", kernels.name());
        images.iter().find(|(n, _)| *n == name).map(|(_, bytes)| *bytes)
    };
    match capability {
        // Code of 8.0 runs on every 8.x; code with an "a" on its own capability alone.
        (8, _) => of("sm_80.cubin"),
        (major, minor) if major >= 9 => {
            of(&format!("sm_{major}{minor}a.cubin")).or_else(|| of("compute_90.ptx"))
        }
        _ => None,
    }
}

/// The options of NVRTC for some kernels and a capability.
pub fn options(kernels: &Kernels, (major, minor): (u32, u32)) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture=sm_{major}{minor}{}", if major >= 9 { "a" } else { "" }),
        "--std=c++17".to_string(),
        // The sources write each fused operation out, so that results are those of the emulator bit for bit.
        "--fmad=false".to_string(),
        "--device-int128".to_string(),
    ];
    options.extend(kernels.macros().into_iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::SOURCES;
    use crate::rings::RINGS;

    /// The files of a folder and of those in it, with `above` before their names.
    fn files_of(folder: &std::path::Path, above: &str) -> Vec<String> {
        let files = std::fs::read_dir(folder).expect("a folder").map(|f| f.expect("a file"));
        let names = files.flat_map(|file| {
            let name = format!("{above}{}", file.file_name().to_string_lossy());
            let path = file.path();
            if path.is_dir() { files_of(&path, &format!("{name}/")) } else { vec![name] }
        });
        names.collect()
    }

    #[test]
    fn every_source_is_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let mut files = files_of(&folder, "");
        let mut names: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        files.sort();
        names.sort_unstable();
        assert_eq!(files, names);
    }

    #[test]
    fn a_device_gets_code_that_runs_on_it() {
        let kernels = &Kernels::from(RINGS[1]);
        let files = ["sm_80.cubin", "sm_90a.cubin", "sm_120a.cubin", "compute_90.ptx"]
            .map(|kind| format!("{}.{kind}", kernels.name()));
        let images: Vec<(&str, &[u8])> = files.iter().map(|f| (f.as_str(), f.as_bytes())).collect();
        let found = |capability| {
            pick(&images, kernels, capability).map(|bytes| {
                let name = std::str::from_utf8(bytes).expect("a name");
                name.split_once('.').expect("a kind").1
            })
        };
        assert_eq!(found((8, 6)), Some("sm_80.cubin"));
        assert_eq!(found((9, 0)), Some("sm_90a.cubin"));
        assert_eq!(found((12, 0)), Some("sm_120a.cubin"));
        assert_eq!(found((12, 1)), Some("compute_90.ptx"));
        assert_eq!(found((10, 0)), Some("compute_90.ptx"));
        assert_eq!(found((7, 5)), None);
        assert_eq!(pick(&images, &RINGS[0].into(), (9, 0)), None);
        // Images of other sources would be launched with other arguments.
        let made =
            |text: &str| made_of(&[("kernels.sources", text.as_bytes())], |c| c.len() as u64);
        assert!(made("0000000000000004 nvcc"));
        assert!(!made("0000000000000004 nvcc 13") && !made("0000000000000004") && !made(""));
        assert!(!made_of(&images, |_| 4));
    }
}
