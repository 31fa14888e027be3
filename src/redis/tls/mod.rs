//! TLS over a socket: which certificates are trusted, the client's own, and what a failed handshake means.
//!
//! All connections of a [`Target`](crate::redis::connect::Target) share one configuration, which is made with the first of
//! them: the system's certificates are read once, and not at all if a CA is given.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, InconsistentKeys,
    OtherError, RootCertStore, SignatureScheme, StreamOwned,
};

use crate::error::{CertificateFault, Result, StoreError, TlsFault};

/// The first byte of what a server with TLS answers.
const ALERT: u8 = 0x15;
const HANDSHAKE: u8 = 0x16;

/// Certificates or a key in PEM form.
#[derive(Clone)]
pub struct Pem {
    /// Where it is from, for messages: "the CA file `ca.pem`".
    pub origin: String,
    /// The text.
    pub text: Vec<u8>,
}

impl std::fmt::Debug for Pem {
    /// Without the text, which may be a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.origin)
    }
}

impl Pem {
    fn invalid(&self, fault: CertificateFault) -> StoreError {
        StoreError::Certificate { origin: self.origin.clone(), fault }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        match all {
            Ok(all) if all.is_empty() => Err(self.invalid(CertificateFault::NoCertificate)),
            Ok(all) => Ok(all),
            Err(error) => Err(self.invalid(damage(&error))),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| match error {
            pem::Error::NoItemsFound => {
                let is_encrypted = String::from_utf8_lossy(&self.text).contains("-BEGIN ENCRYPTED PRIVATE KEY-");
                self.invalid(if is_encrypted { CertificateFault::EncryptedKey } else { CertificateFault::NoKey })
            }
            // An old form of encrypted keys has lines before its base64.
            _ if String::from_utf8_lossy(&self.text).contains("Proc-Type: 4,ENCRYPTED") => {
                self.invalid(CertificateFault::EncryptedKey)
            }
            error => self.invalid(damage(&error)),
        })
    }
}

/// In our own words: the text of the error may quote the file, which may be a key.
fn damage(error: &pem::Error) -> CertificateFault {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "its last line, -----END …-----, is missing",
        pem::Error::IllegalSectionStart { .. } => "a line -----BEGIN …----- is damaged",
        pem::Error::Base64Decode(_) => "its base64 is damaged",
        _ => "it cannot be read as PEM",
    };
    CertificateFault::Damaged(why.to_owned())
}

/// Whom to trust, and who we are.
#[derive(Debug, Clone, Default)]
pub struct Certificates {
    /// The CAs that may have signed the server's certificate; without them, those that the system trusts.
    pub ca: Option<Pem>,
    /// The client's certificate with those between it and its CA, and its private key.
    pub client: Option<(Pem, Pem)>,
}

/// How TLS is spoken with all servers of a target.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Any certificate will do, if its owner has the key.
    is_insecure: bool,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// With the CAs that the system trusts, and no certificate of our own.
    pub(crate) fn new(is_insecure: bool) -> Self {
        Self { is_insecure, config: OnceLock::new() }
    }

    /// With these certificates, which are checked.
    pub(crate) fn with(&self, certificates: &Certificates) -> Result<Self> {
        let trusted = match &certificates.ca {
            Some(ca) if self.is_insecure => return Err(ca.invalid(CertificateFault::Insecure)),
            Some(ca) => Some(roots(ca)?),
            None => self.trusted().map_err(|error| unfit_system(&error))?,
        };
        let client = match &certificates.client {
            Some((certificate, key)) => Some((certificate.certificates()?, key.key()?)),
            None => None,
        };
        let config = configure(trusted, client);
        let config = config.map_err(|error| unfit_client(&error, certificates.client.as_ref()))?;
        Ok(Self { is_insecure: self.is_insecure, config: OnceLock::from(Arc::new(config)) })
    }

    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let config = configure(self.trusted()?, None)?;
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(config))))
    }

    /// The CAs that are trusted if none is given; `None` if any certificate will do.
    fn trusted(&self) -> io::Result<Option<RootCertStore>> {
        if self.is_insecure { Ok(None) } else { of_system().map(Some) }
    }

    /// Wraps a socket; the first bytes that are sent shake hands.
    pub(crate) fn wrap(&self, socket: TcpStream, host: &str) -> io::Result<Encrypted> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.config()?, name).map_err(io::Error::other)?;
        Ok(Encrypted(StreamOwned::new(connection, socket)))
    }
}

/// Why the CAs that the system trusts cannot be used.
fn unfit_system(error: &io::Error) -> StoreError {
    let fault = CertificateFault::Damaged(error.to_string());
    StoreError::Certificate { origin: "the CAs of this system".to_owned(), fault }
}

/// Why a configuration with a client's certificate cannot be made.
fn unfit_client(error: &io::Error, client: Option<&(Pem, Pem)>) -> StoreError {
    let damaged = CertificateFault::Damaged(error.to_string());
    let Some((certificate, key)) = client else { return unfit_system(error) };
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => key.invalid(CertificateFault::Mismatch),
        Some(Error::InvalidCertificate(_)) => certificate.invalid(damaged),
        _ => key.invalid(damaged),
    }
}

/// Without trusted CAs any certificate will do.
fn configure(
    trusted: Option<RootCertStore>,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?;
    let is_any = trusted.is_none();
    let config = match trusted {
        Some(roots) => config.with_root_certificates(roots),
        None => config.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
    };
    let mut config = match client {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).map_err(io::Error::other)?,
        None => config.with_no_client_auth(),
    };
    config.enable_sni = !is_any;
    Ok(config)
}

fn roots(ca: &Pem) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in ca.certificates()? {
        roots.add(certificate).map_err(|error| ca.invalid(CertificateFault::Damaged(error.to_string())))?;
    }
    Ok(roots)
}

/// The system's certificates, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
fn of_system() -> io::Result<RootCertStore> {
    let mut found = rustls_native_certs::load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(io::Error::other(error));
    }
    let mut trusted = RootCertStore::empty();
    for certificate in found.certs {
        trusted.add(certificate).map_err(io::Error::other)?;
    }
    Ok(trusted)
}

/// A socket with TLS.
pub(crate) struct Encrypted(StreamOwned<ClientConnection, TcpStream>);

impl Read for Encrypted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| self.last_words(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| self.last_words(error))
    }
}

impl Encrypted {
    /// What the encrypted bytes go through.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.0.sock
    }

    /// A server that refuses us closes the connection. Why is in the alert that it sent before, which is still unread.
    fn last_words(&mut self, error: io::Error) -> io::Error {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        if !matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset) {
            return error;
        }
        let StreamOwned { conn, sock } = &mut self.0;
        while conn.read_tls(sock).is_ok_and(|read| read > 0) {
            if let Err(alert) = conn.process_new_packets() {
                return io::Error::new(io::ErrorKind::InvalidData, alert);
            }
        }
        error
    }
}

/// Whether what answers on a socket speaks TLS. What does not takes our greeting for a line that it does not know.
pub(crate) fn is_spoken_on(socket: &mut (impl Read + Write + ?Sized)) -> bool {
    let greeting = || {
        let config = Arc::new(configure(None, None).ok()?);
        let mut connection = ClientConnection::new(config, ServerName::try_from("localhost").ok()?).ok()?;
        let mut greeting = Vec::new();
        connection.write_tls(&mut greeting).ok()?;
        greeting.extend_from_slice(b"\r\n");
        Some(greeting)
    };
    let Some(greeting) = greeting() else { return false };
    let mut first = [0];
    let answered = socket.write_all(&greeting).and_then(|()| socket.read_exact(&mut first));
    answered.is_ok() && matches!(first, [ALERT | HANDSHAKE])
}

/// Accepts any certificate, if its owner has the key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// What an error of a socket says about TLS, if it does.
pub(crate) fn fault(error: &io::Error) -> Option<(TlsFault, String)> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        // A bad signature is that of a CA with the same name and another key.
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            (TlsFault::UnknownCa, "no CA that is trusted here signed the server's certificate".to_owned())
        }
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            (TlsFault::OtherHost, other_host(&expected.to_str(), presented))
        }
        Error::InvalidCertificate(CertificateError::ExpiredContext { .. } | CertificateError::Expired) => {
            (TlsFault::Certificate, "the server's certificate has expired".to_owned())
        }
        Error::InvalidCertificate(CertificateError::NotValidYetContext { .. } | CertificateError::NotValidYet) => {
            (TlsFault::Certificate, "the server's certificate is not valid yet by the clock of this machine".to_owned())
        }
        // How rustls' verifier names it: its type is not public there.
        Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
            if format!("{why:?}") == "CaUsedAsEndEntity" =>
        {
            let what = "the server's certificate is that of a CA, as self-signed ones are, and not of a server";
            (TlsFault::Certificate, what.to_owned())
        }
        Error::InvalidCertificate(other) => (TlsFault::Certificate, format!("the server's certificate: {other}")),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            (TlsFault::WantsCertificate, "the server demands a client certificate".to_owned())
        }
        // What servers with TLS 1.2 say to a client without a certificate, and not only then.
        Error::AlertReceived(AlertDescription::HandshakeFailure) => (
            TlsFault::WantsCertificate,
            "the server refused the handshake; it may demand a client certificate".to_owned(),
        ),
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError),
        ) => (TlsFault::RefusesCertificate, format!("the server refused the client certificate: {}", name(*alert))),
        Error::AlertReceived(alert) => (TlsFault::Other, format!("the server refused: {}", name(*alert))),
        Error::InvalidMessage(_) => (TlsFault::NoTls, "the server does not speak TLS at this port".to_owned()),
        other => (TlsFault::Other, other.to_string()),
    })
}

fn other_host(expected: &str, presented: &[String]) -> String {
    // As rustls has them: `DnsName("a.example")`, `IpAddress(10.0.0.5)`.
    let names: Vec<&str> = presented
        .iter()
        .map(|name| {
            name.split_once('(').map_or(name.as_str(), |(_, rest)| rest.trim_end_matches(')').trim_matches('"'))
        })
        .collect();
    match names.is_empty() {
        true => format!("the server's certificate names no host (subjectAltName), so not `{expected}` either"),
        false => format!("the server's certificate is for `{}`, not for `{expected}`", names.join("`, `")),
    }
}

/// An alert as specifications write it: `certificate_unknown`.
fn name(alert: AlertDescription) -> String {
    let mut name = String::new();
    let mut was_lower = false;
    for letter in format!("{alert:?}").chars() {
        if was_lower && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
        was_lower = letter.is_ascii_lowercase();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_named_as_specifications_name_them() {
        assert_eq!(name(AlertDescription::CertificateUnknown), "certificate_unknown");
        assert_eq!(name(AlertDescription::UnknownCA), "unknown_ca");
    }

    #[test]
    fn a_wrong_host_is_shown_with_the_names_of_the_certificate() {
        let presented = ["DnsName(\"a.example\")".to_owned(), "IpAddress(10.0.0.5)".to_owned()];
        let expected = "the server's certificate is for `a.example`, `10.0.0.5`, not for `b`";
        assert_eq!(other_host("b", &presented), expected);
        assert!(other_host("b", &[]).contains("names no host"));
    }
}
