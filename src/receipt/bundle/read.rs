//! Reads a bundle and checks everything that can be checked without running anything.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use super::{
    CHAIN, CHAIN_SIGNATURE, ChainDocument, KEY, MAX_ROWS, OBJECTS, OUTPUTS, RECEIPT, SIGNATURE, archive,
    refused,
};
use crate::receipt::document::{FORMAT, Run};
use crate::receipt::objects::{ObjectMap, tree_of};
use crate::receipt::prove::{ISSUE_ACTION, detail};
use crate::receipt::sshsig::{CHAIN_NAMESPACE, PublicKey, RECEIPT_NAMESPACE};
use crate::receipt::tree::Tree;
use crate::receipt::{Receipt, ReceiptError, canonical, decision};
use crate::sandbox::check::TreeSource as _;
use crate::store::follow_chain;

/// A bundle whose parts all agree with the signed receipt.
pub struct Bundle {
    /// The hash of the receipt.
    pub id: String,
    pub receipt: Receipt,
    /// The key that signed it. The caller decides whether it is one to trust.
    pub key: PublicKey,
    pub tree: Arc<Tree>,
    /// The receipt's place in the audit. `None` if the bundle does not show it.
    pub chain: Option<ChainDocument>,
    /// The row of the audit that names the receipt.
    pub row: Option<i64>,
    /// The kept outputs, in the order of the commands.
    pub outputs: Vec<Vec<u8>>,
}

/// Reads a bundle.
///
/// # Errors
///
/// Returns the first part that is missing, is not allowed, or is not what the signed receipt says.
pub fn read(from: impl Read) -> Result<Bundle, ReceiptError> {
    let mut parts = Parts::of(archive::entries(from)?)?;
    let document = parts.take(RECEIPT)?;
    let signature = text(parts.take(SIGNATURE)?)?;
    let line = text(parts.take(KEY)?)?;
    let key = PublicKey::parse(&line)?;
    if line != key.line("flock-receipt") + "\n" {
        return Err(refused("its key is not written as flock writes it"));
    }
    key.verify(RECEIPT_NAMESPACE, &document, &signature)?;
    let receipt = Receipt::parse(&document)?;
    let id = canonical::hash(&document);
    let chain = match parts.find(CHAIN) {
        None => None,
        Some(chain) => {
            let signature = text(parts.take(CHAIN_SIGNATURE)?)?;
            key.verify(CHAIN_NAMESPACE, &chain, &signature)?;
            Some(canonical::read::<ChainDocument>("the part of the audit", &chain)?)
        }
    };
    let row = chain.as_ref().map(|chain| own_row(chain, &id, &receipt)).transpose()?;
    let outputs = outputs(&mut parts, &receipt.runs)?;
    let tree = tree(parts, &receipt)?;
    Ok(Bundle { id, receipt, key, tree: Arc::new(tree), chain, row, outputs })
}

/// The parts that were not used yet, in their order.
struct Parts(std::vec::IntoIter<(String, Vec<u8>)>);

impl Parts {
    fn of(entries: Vec<(String, Vec<u8>)>) -> Result<Self, ReceiptError> {
        let mut names = BTreeSet::new();
        for (name, _) in &entries {
            if !names.insert(name) {
                return Err(refused(format!("it has {:?} twice", crate::clean::summary(name, 80))));
            }
        }
        Ok(Self(entries.into_iter()))
    }

    /// Takes the next part if it has this name.
    fn find(&mut self, name: &str) -> Option<Vec<u8>> {
        let is_next = self.0.as_slice().first().is_some_and(|(found, _)| found == name);
        is_next.then(|| self.0.next().map(|(_, content)| content)).flatten()
    }

    fn take(&mut self, name: &str) -> Result<Vec<u8>, ReceiptError> {
        self.find(name).ok_or_else(|| refused(format!("{name} is missing or at another place")))
    }
}

fn text(bytes: Vec<u8>) -> Result<String, ReceiptError> {
    String::from_utf8(bytes).map_err(|_| refused("a text in it is not UTF-8"))
}

/// Follows the part of the audit, and returns the row that names the receipt.
fn own_row(chain: &ChainDocument, id: &str, receipt: &Receipt) -> Result<i64, ReceiptError> {
    let wrong =
        |reason: &str| ReceiptError::Malformed { what: "the part of the audit", reason: reason.to_owned() };
    if chain.format != FORMAT || chain.receipt != id || chain.start != receipt.chain {
        return Err(wrong("it is that of another receipt"));
    }
    let count = i64::try_from(chain.rows.len()).unwrap_or(i64::MAX);
    if chain.rows.len() > MAX_ROWS || chain.start.row.checked_add(count) != Some(chain.end.row) {
        return Err(wrong("it has too many rows, or too few"));
    }
    if follow_chain(&chain.start.hash, &chain.rows).as_ref() != Some(&chain.end.hash) {
        return Err(wrong("its rows do not follow each other"));
    }
    let mut shown = chain.rows.iter().enumerate().filter_map(|(at, row)| Some((at, row.fields.as_ref()?)));
    let (Some((at, fields)), None) = (shown.next(), shown.next()) else {
        return Err(wrong("it does not show exactly one row"));
    };
    let decision = decision(receipt)?;
    let expected = detail(id, &receipt.delivered.tree, decision.as_str());
    let names = |at: usize, value: &str| fields.get(at).is_some_and(|field| field == value);
    if fields.len() != 8 || !names(1, "system") || !names(2, ISSUE_ACTION) || !names(5, &expected) {
        return Err(wrong("the row in it does not name the receipt"));
    }
    Ok(chain.start.row + 1 + i64::try_from(at).unwrap_or(i64::MAX))
}

fn outputs(parts: &mut Parts, runs: &[Run]) -> Result<Vec<Vec<u8>>, ReceiptError> {
    let mut outputs = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let output = parts.take(&format!("{OUTPUTS}{at:04}"))?;
        let whole = output.len() as u64 == run.output_bytes;
        let hash = canonical::hash(&output);
        // The hash of the whole output binds a whole one. A part of a long one has a hash of its own.
        if hash != run.kept_sha256 || (whole && hash != run.output_sha256) {
            return Err(refused(format!("the output of the check {} is not the one of the receipt", at + 1)));
        }
        outputs.push(output);
    }
    Ok(outputs)
}

/// Reads the delivered commit and its tree. All other parts must be their objects.
fn tree(parts: Parts, receipt: &Receipt) -> Result<Tree, ReceiptError> {
    let mut map = ObjectMap::default();
    let mut last = String::new();
    for (name, content) in parts.0 {
        let id = name.strip_prefix(OBJECTS);
        let Some(id) = id.filter(|id| *id > last.as_str()) else {
            let name = crate::clean::summary(&name, 80);
            return Err(refused(format!("{name:?} is not a part of a bundle, or is at another place")));
        };
        id.clone_into(&mut last);
        map.0.insert(id.to_owned(), content);
    }
    let present: BTreeSet<String> = map.0.keys().cloned().collect();
    if tree_of(&map, &receipt.delivered.commit)? != receipt.delivered.tree {
        return Err(refused("the tree is not that of the delivered commit"));
    }
    let tree = Tree::load(Arc::new(map), &receipt.delivered.tree)?;
    let mut named: BTreeSet<String> = tree.objects().into_keys().collect();
    named.insert(receipt.delivered.commit.clone());
    if named != present {
        return Err(refused("it has objects that are not of the delivered tree"));
    }
    if tree.id() != receipt.delivered.tree || tree.sha256()? != receipt.delivered_sha256 {
        return Err(refused("the tree is not the one of the receipt"));
    }
    Ok(tree)
}
