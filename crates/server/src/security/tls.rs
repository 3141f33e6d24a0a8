//! TLS of the whole server: the configurations of its listeners, read again while it runs.
//!
//! A connection keeps the configuration that it began with.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use micanite_net::tls::{ClientCertificates, ServerConfig, TlsOptions, load};

use crate::configuration::{ListenTls, TlsSettings};
use crate::limits::EXPIRED_INTERVAL_S;

/// Certificates and TLS settings of all listeners.
#[derive(Debug)]
pub struct TlsShared {
    settings: TlsSettings,
    current: RwLock<Configs>,
    refreshed_s: AtomicU32,
    /// Refreshes that were done, and that failed.
    refreshes: [AtomicU32; 2],
    /// The last second in which a client asked for the files to be read.
    asked_s: AtomicU32,
    /// When it was last told that a certificate has expired, unix time.
    told_s: AtomicU32,
}

/// One for each kind of listener.
#[derive(Debug)]
struct Configs {
    default: Arc<ServerConfig>,
    basic: Arc<ServerConfig>,
    /// Set if certificate authorities of clients are configured.
    mutual: Option<Arc<ServerConfig>>,
    /// The first end of a certificate of the chain, unix time.
    ends_s: Option<i64>,
}

impl Configs {
    fn load(settings: &TlsSettings) -> Result<Self, String> {
        let with = |clients| {
            let options = TlsOptions { clients, ..settings.options.clone() };
            load(&options)
        };
        let has_authorities = settings.options.client_authorities.is_some();
        let default = load(&settings.options)?;
        let mutual = has_authorities.then(|| with(ClientCertificates::Require)).transpose()?;
        Ok(Self {
            default: default.config,
            basic: with(ClientCertificates::None)?.config,
            mutual: mutual.map(|loaded| loaded.config),
            ends_s: default.ends_s,
        })
    }
}

impl TlsShared {
    /// Reads the files.
    ///
    /// # Errors
    /// A sentence that names the file and says what is wrong with it.
    pub fn new(settings: &TlsSettings, now_s: u32) -> Result<Self, String> {
        Ok(Self {
            current: RwLock::new(Configs::load(settings)?),
            settings: settings.clone(),
            refreshed_s: AtomicU32::new(now_s),
            refreshes: Default::default(),
            asked_s: AtomicU32::new(0),
            told_s: AtomicU32::new(0),
        })
    }

    /// Lets a client ask for that, at most once a second of the clock, because connections wait meanwhile.
    ///
    /// # Errors
    /// A client has asked within this second.
    pub fn admit_client(&self, now_s: u32) -> Result<(), String> {
        match self.asked_s.fetch_max(now_s, Ordering::Relaxed) >= now_s {
            true => Err("Error certificates were read within this second, ask again in the next".into()),
            false => Ok(()),
        }
    }

    /// Reads the files again. If that fails, everything stays as it was.
    ///
    /// # Errors
    /// As in [`Self::new`].
    pub fn refresh(&self, now_s: u32) -> Result<(), String> {
        let configs = Configs::load(&self.settings);
        self.refreshes[usize::from(configs.is_err())].fetch_add(1, Ordering::Relaxed);
        let configs = configs?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = configs;
        self.refreshed_s.store(now_s, Ordering::Relaxed);
        self.told_s.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the first end of a certificate of the chain, unix time, if one can be read.
    pub fn ends_s(&self) -> Option<i64> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).ends_s
    }

    /// Returns a sentence if a certificate has expired, once in [`EXPIRED_INTERVAL_S`] and after each
    /// refresh.
    pub fn expired(&self, now_s: u32) -> Option<String> {
        let past_s = i64::from(now_s) - self.ends_s()?;
        let is_told = now_s.saturating_sub(self.told_s.load(Ordering::Relaxed)) < EXPIRED_INTERVAL_S;
        if past_s <= 0 || is_told {
            return None;
        }
        self.told_s.store(now_s, Ordering::Relaxed);
        let past = match past_s {
            ..=172_799 => format!("{} hours", past_s / 3600),
            _ => format!("{} days", past_s / 86_400),
        };
        let chain = self.settings.options.chain.display();
        Some(format!(
            "a certificate in {chain} expired {past} ago, and clients that verify it refuse it: put a new \
             one there, then send SIGHUP"
        ))
    }

    /// Returns the configuration of a new connection; none if the listener does not encrypt.
    pub fn config(&self, listener: ListenTls) -> Option<Arc<ServerConfig>> {
        let configs = self.current.read().unwrap_or_else(PoisonError::into_inner);
        match listener {
            ListenTls::Plain => None,
            ListenTls::Default => Some(Arc::clone(&configs.default)),
            ListenTls::Basic => Some(Arc::clone(&configs.basic)),
            ListenTls::Mutual => configs.mutual.clone(),
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// Returns how often the files were read again, and how often that failed.
    pub fn refreshes(&self) -> (u32, u32) {
        let [done, failed] = self.refreshes.each_ref().map(|count| count.load(Ordering::Relaxed));
        (done, failed)
    }

    /// When the files were read, unix time.
    pub fn refreshed_s(&self) -> u32 {
        self.refreshed_s.load(Ordering::Relaxed)
    }
}
