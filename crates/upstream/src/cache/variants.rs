//! What the index knows of one server: its catalogs, which may differ with the client capabilities that it was
//! offered.
//!
//! Most servers list the same under every offer, so a catalog is kept once with all the offers that led to it. An
//! offer that was never made borrows the catalog that was read last.

use crate::catalog::list_limits::LeftOff;
use crate::catalog::{Catalog, CatalogSource, ListHashes, ServerInfo, Tool};
use base::clock::unix_time_s;
use base::digest;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The capacity of one server in catalogs. Beyond it, those that were read longest ago are dropped.
const MAX_VARIANTS: usize = 4;
/// How many offers are remembered with a catalog. Beyond it, those that were made longest ago are dropped.
const MAX_OFFERS: usize = 16;
/// The length of the hashes, in bytes.
pub(super) const HASH_BYTES: usize = 16;

/// The catalogs of one server, the one that was read last first.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Variants(Vec<Variant>);

/// One catalog of a server.
#[derive(Serialize, Deserialize)]
struct Variant {
    /// When the catalog was read, in seconds since 1970.
    #[serde(rename = "read")]
    read_at_s: u64,
    /// A hash of everything that the server said, which is part of the file's name.
    content: String,
    /// Hashes of the capabilities under which it was read, the latest last.
    offers: Vec<String>,
    /// How long connecting took, in milliseconds.
    #[serde(rename = "took", default)]
    connect_ms: Option<u64>,
    /// Hashes of the lists other than the tools.
    #[serde(rename = "marks")]
    hashes: ListHashes,
    /// The server's answer to the handshake.
    #[serde(rename = "introduction")]
    info: ServerInfo,
    /// What the program itself uses of the definitions.
    tools: Vec<Tool>,
    /// What exceeds a limit.
    #[serde(default, skip_serializing_if = "LeftOff::is_empty")]
    left_off: LeftOff,
    /// What to know of the server although it works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    findings: Vec<String>,
    /// The bytes of all definitions.
    bytes: usize,
}

/// The members of a variant that the cleanup of servers and files needs.
#[derive(Deserialize)]
pub(super) struct VariantSummary {
    /// When the catalog was read, in seconds since 1970.
    #[serde(rename = "read")]
    pub(super) read_at_s: u64,
    /// The hash in the file's name.
    pub(super) content: String,
}

/// The name of the file that has the definitions of a catalog.
pub(super) fn definitions_file(launch: &str, content: &str) -> String {
    format!("{launch}-{content}.json")
}

impl Variants {
    /// Returns the catalog that was read under this offer, else the last one that was read.
    pub(super) fn into_catalog(self, dir: &Path, launch: &str, offer: &str) -> Option<Arc<Catalog>> {
        let own = self.0.iter().position(|variant| variant.was_offered(offer));
        let variant = self.0.into_iter().nth(own.unwrap_or_default())?;
        let read_at = UNIX_EPOCH.checked_add(Duration::from_secs(variant.read_at_s))?;
        let source = match own {
            Some(_) => CatalogSource::Cached(read_at),
            None => CatalogSource::Borrowed(read_at),
        };
        let file = dir.join(definitions_file(launch, &variant.content));
        let mut catalog = Catalog::cached(variant.info, variant.tools, file, variant.bytes, source);
        catalog.left_off = variant.left_off;
        catalog.findings = variant.findings;
        catalog.connect_time = variant.connect_ms.map(Duration::from_millis);
        catalog.hashes = variant.hashes;
        Some(Arc::new(catalog))
    }

    /// Has all catalogs count as read at this time, in seconds since 1970.
    pub(super) fn set_read_at(&mut self, now_s: u64) {
        self.0.iter_mut().for_each(|variant| variant.read_at_s = now_s);
    }

    /// Adds a catalog that was read under this offer. `body`: its definitions. Returns the name of the file that gets
    /// them, and the names of the files that are no longer needed: those of catalogs beyond `MAX_VARIANTS`, and of
    /// catalogs that no offer leads to any more.
    pub(super) fn add(
        &mut self,
        launch: &str,
        offer: &str,
        catalog: &Catalog,
        body: &str,
    ) -> (String, Vec<String>) {
        let info = serde_json::to_string(&catalog.info).unwrap_or_default();
        let content = digest::of_parts([info.as_str(), body], HASH_BYTES);
        let mut offers = match self.0.iter().position(|variant| variant.content == content) {
            Some(known) => self.0.remove(known).offers,
            None => Vec::new(),
        };
        for variant in &mut self.0 {
            variant.offers.retain(|known| known != offer);
        }
        offers.retain(|known| known != offer);
        offers.push(offer.to_owned());
        offers.drain(..offers.len().saturating_sub(MAX_OFFERS));
        let file = definitions_file(launch, &content);
        let variant = Variant {
            read_at_s: unix_time_s(),
            content,
            offers,
            connect_ms: catalog.connect_time.and_then(|time| u64::try_from(time.as_millis()).ok()),
            hashes: catalog.hashes,
            info: catalog.info.clone(),
            tools: catalog.tools.clone(),
            left_off: catalog.left_off.clone(),
            findings: catalog.findings.clone(),
            bytes: catalog.bytes,
        };
        self.0.insert(0, variant);
        let mut kept = 0;
        let unneeded = self.0.extract_if(.., |variant| {
            let is_needed = kept < MAX_VARIANTS && !variant.offers.is_empty();
            kept += usize::from(is_needed);
            !is_needed
        });
        let unneeded = unneeded.map(|variant| definitions_file(launch, &variant.content)).collect();
        (file, unneeded)
    }
}

impl Variant {
    fn was_offered(&self, offer: &str) -> bool {
        self.offers.iter().any(|known| known == offer)
    }
}
