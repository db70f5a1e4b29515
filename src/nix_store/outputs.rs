//! The way of a build's outputs into the store. The build's own account of them is not trusted: the store's container reads
//! the files, finds their references and computes the hashes.

use std::collections::{BTreeMap, BTreeSet};

use super::NixError;
use super::derivation::{DerivationOutput, FixedOutput};
use super::path::StorePath;
use super::profile::LONG;
use super::realise::{MAX_DERIVATION, Realisation};
use super::store::{BUILDS, exec};
use crate::sandbox::exec::EngineExec;

impl Realisation<'_> {
    /// Takes the outputs of a derivation out of the folder of its build.
    pub(super) async fn import_outputs(
        &self,
        folder: &str,
        derivation: &StorePath,
        outputs: Vec<DerivationOutput>,
    ) -> Result<(), NixError> {
        let (fixed, mut plain): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|output| output.fixed.is_some());
        for output in fixed {
            if let Some(fixed) = &output.fixed {
                self.import_fixed_output(folder, &output.path, fixed).await?;
            }
        }
        let own: BTreeSet<StorePath> = plain.iter().map(|output| output.path.clone()).collect();
        let mut references = self.references(folder, derivation, &own).await?;
        // The store accepts an output only after the outputs of the same derivation that it refers to.
        let mut taken = BTreeSet::new();
        while !plain.is_empty() {
            let ready = plain.iter().position(|output| {
                let needs = references.get(&output.path).cloned().unwrap_or_default();
                needs.iter().all(|path| *path == output.path || !own.contains(path) || taken.contains(path))
            });
            let Some(ready) = ready else {
                let tail = "its outputs refer to each other in a circle".to_owned();
                return Err(NixError::Nix { what: format!("build {}", derivation.name()), tail });
            };
            let path = plain.remove(ready).path;
            let needs = references.remove(&path).unwrap_or_default();
            self.import_output(folder, derivation, &path, &needs).await?;
            taken.insert(path);
        }
        Ok(())
    }

    /// Finds the paths that each output refers to, among those that it can know. The files are searched here, because
    /// the build's own account cannot be trusted.
    async fn references(
        &self,
        folder: &str,
        derivation: &StorePath,
        own: &BTreeSet<StorePath>,
    ) -> Result<BTreeMap<StorePath, BTreeSet<StorePath>>, NixError> {
        let mut references = BTreeMap::new();
        if own.is_empty() {
            return Ok(references);
        }
        let what = format!("look through {}", derivation.name());
        let paths: Vec<String> = own.iter().map(|path| format!("'{}'", path.base())).collect();
        let paths = paths.join(" ");
        let own_names: Vec<&str> = own.iter().map(StorePath::as_str).collect();
        // Characters 12 to 43 of a store path are its hash. The first dump makes the script fail on an output that
        // cannot be read, which the pipeline after it would hide.
        let script = format!(
            "set -e; export LC_ALL=C; cd '{BUILDS}/{folder}'
             {{ nix-store -q --requisites --include-outputs '{derivation}'; printf '%s\\n' {own}; }} > known
             cut -c12-43 known | sort -u > hashes
             for path in {paths}; do
               nix-store --dump \"upper/$path\" > /dev/null
               echo \"{OUTPUT_PREFIX} output $path\"
               nix-store --dump \"upper/$path\" | tr -c '0-9a-z' '\\n' | grep -E '.{{32}}' | grep -oFf hashes | sort -u || :
             done
             echo '{OUTPUT_PREFIX} known'; cat known",
            own = own_names.join(" "),
        );
        let exec = EngineExec { keep: MAX_DERIVATION, ..exec(&script, LONG) };
        let text = self.command(&what, exec).await?;
        let (found, known) = text.split_once(&format!("{OUTPUT_PREFIX} known\n")).unwrap_or((&text, ""));
        let known: Vec<StorePath> = known.lines().filter_map(|line| line.parse().ok()).collect();
        let mut of: Option<StorePath> = None;
        for line in found.lines() {
            if let Some(base) = line.strip_prefix(&format!("{OUTPUT_PREFIX} output ")) {
                of = own.iter().find(|path| path.base() == base).cloned();
                continue;
            }
            if let (Some(of), Some(path)) = (&of, known.iter().find(|path| path.hash() == line)) {
                references.entry(of.clone()).or_insert_with(BTreeSet::new).insert(path.clone());
            }
        }
        Ok(references)
    }

    async fn import_output(
        &self,
        folder: &str,
        derivation: &StorePath,
        path: &StorePath,
        references: &BTreeSet<StorePath>,
    ) -> Result<(), NixError> {
        // The stream of `nix-store --import`: the number 1, the archive, and the trailer from standard input.
        let script = format!(
            "set -e; cd '{BUILDS}/{folder}/upper'
             {{ printf '\\001\\000\\000\\000\\000\\000\\000\\000'; nix-store --dump '{base}'; cat; }} | nix-store --import",
            base = path.base()
        );
        let what = format!("take over {}", path.name());
        let input = Some(trailer(path, references, derivation).into());
        self.command(&what, EngineExec { input, ..exec(&script, LONG) }).await.map(drop)
    }

    /// Takes an output whose content is fixed in advance. Nix computes the path from the content, so any other content
    /// ends up at another path.
    async fn import_fixed_output(
        &self,
        folder: &str,
        path: &StorePath,
        fixed: &FixedOutput,
    ) -> Result<(), NixError> {
        let (recursive, test) = if fixed.is_recursive {
            ("--recursive ", String::new())
        } else {
            ("", format!("[ -f '{0}' ] && [ ! -L '{0}' ]; ", path.base()))
        };
        // Nix takes the name of the path from the file, so the output is renamed to its plain name first.
        let script = format!(
            "set -e; cd '{BUILDS}/{folder}/upper'; {test}mkdir ../fixed; mv '{base}' '../fixed/{name}'
             made=$(nix-store --add-fixed {recursive}{algorithm} '../fixed/{name}')
             if [ \"$made\" != '{path}' ]; then echo \"its content has another hash: $made\" >&2; exit 1; fi",
            base = path.base(),
            name = path.name(),
            algorithm = fixed.algorithm,
        );
        let what = format!("take over {}", path.name());
        self.command(&what, exec(&script, LONG)).await.map(drop)
    }
}

/// Returns the bytes that follow a path's archive in the stream of `nix-store --import`.
fn trailer(path: &StorePath, references: &BTreeSet<StorePath>, deriver: &StorePath) -> Vec<u8> {
    let mut bytes = EXPORT_MAGIC.to_le_bytes().to_vec();
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    };
    text(&mut bytes, path.as_str());
    bytes.extend((references.len() as u64).to_le_bytes());
    for reference in references {
        text(&mut bytes, reference.as_str());
    }
    text(&mut bytes, deriver.as_str());
    // No signature, and no further path.
    bytes.extend([0; 16]);
    bytes
}

const EXPORT_MAGIC: u64 = 0x4558_494e;

/// Prefix of the output lines that are meant for flock, where nothing else in the output can have it.
const OUTPUT_PREFIX: &str = "flock:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_trailer_matches_nix() {
        const LIB: &str = "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-lib.drv";
        let path: StorePath = LIB.parse().unwrap();
        let bytes = trailer(&path, &BTreeSet::from([path.clone()]), &path);
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(&bytes[..8], b"NIXE\0\0\0\0");
        assert_eq!(bytes.len(), 8 + 3 * (8 + LIB.len().next_multiple_of(8)) + 8 + 16);
    }
}
