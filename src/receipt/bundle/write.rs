//! Writes a bundle.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use git2::ObjectType;

use super::archive::Writer;
use super::{CHAIN, CHAIN_SIGNATURE, ChainDocument, KEY, OBJECTS, OUTPUTS, RECEIPT, ROWS_AFTER, SIGNATURE};
use crate::clock;
use crate::home::Home;
use crate::receipt::document::{ChainPosition, FORMAT};
use crate::receipt::key::SigningKey;
use crate::receipt::objects::{Objects as _, Repo};
use crate::receipt::sshsig::CHAIN_NAMESPACE;
use crate::receipt::tree::Tree;
use crate::receipt::{Receipt, ReceiptError, canonical, read_stored};
use crate::store::{Database, StoredOutput, StoredReceipt};

/// The parts of a bundle.
pub struct Export {
    receipt: Receipt,
    stored: StoredReceipt,
    outputs: Vec<StoredOutput>,
    /// The chain document and its signature. `None` if rows of it were deleted since.
    chain: Option<(Vec<u8>, String)>,
    key: String,
}

impl Export {
    /// Reads a receipt with its outputs and its part of the audit chain.
    ///
    /// # Errors
    ///
    /// Fails if the stored receipt is not the one that was made, or if the database can't be read.
    pub async fn load<A>(
        home: &Home,
        database: &Database<A>,
        stored: StoredReceipt,
    ) -> Result<Self, ReceiptError> {
        let receipt = read_stored(home, &stored)?;
        let outputs = database.receipts().outputs(&stored.id).await?;
        let key = SigningKey::read(home)?.ok_or(ReceiptError::Key)?;
        let slice = database.audit().slice(receipt.chain.row, stored.audit_row, ROWS_AFTER).await?;
        let chain = match slice {
            None => None,
            Some(slice) => {
                let (start, end) = (slice.start, slice.end);
                let document = ChainDocument {
                    at: clock::unix_ms(),
                    end: ChainPosition { row: end.0, hash: end.1 },
                    format: FORMAT,
                    receipt: stored.id.clone(),
                    rows: slice.rows,
                    start: ChainPosition { row: start.0, hash: start.1 },
                };
                let text = canonical::write("the part of the audit", &document)?;
                let signature = key.sign(CHAIN_NAMESPACE, &text);
                Some((text, signature))
            }
        };
        let key = key.public().line("flock-receipt") + "\n";
        Ok(Self { receipt, stored, outputs, chain, key })
    }

    /// Returns `true` if the bundle will show the receipt's place in the audit.
    #[must_use]
    pub const fn has_chain(&self) -> bool {
        self.chain.is_some()
    }

    /// Returns the receipt.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// Writes the bundle of a receipt. `repository` is one that has the delivered commit.
///
/// # Errors
///
/// Fails if an object can't be read, if the tree is not the one of the receipt, or if the file can't be written.
pub fn export<W: Write>(export: &Export, repository: &Path, to: W) -> Result<W, ReceiptError> {
    let repo = Arc::new(Repo::open(repository)?);
    let receipt = &export.receipt;
    let tree = Tree::load(Arc::clone(&repo) as _, &receipt.delivered.tree)?;
    let failed = |source| ReceiptError::File { path: "the bundle".into(), source };
    let mut writer = Writer(to);
    let mut add = |name: &str, content: &[u8]| writer.add(name, content).map_err(failed);
    add(RECEIPT, export.stored.document.as_bytes())?;
    add(SIGNATURE, export.stored.signature.as_bytes())?;
    add(KEY, export.key.as_bytes())?;
    if let Some((document, signature)) = &export.chain {
        add(CHAIN, document)?;
        add(CHAIN_SIGNATURE, signature.as_bytes())?;
    }
    for (at, output) in export.outputs.iter().enumerate() {
        add(&format!("{OUTPUTS}{at:04}"), &[output.head.as_slice(), &output.tail].concat())?;
    }
    let mut objects = tree.objects();
    objects.insert(receipt.delivered.commit.clone(), ObjectType::Commit);
    for (id, kind) in objects {
        add(&format!("{OBJECTS}{id}"), &repo.read(kind, &id)?)?;
    }
    writer.finish().map_err(failed)
}
