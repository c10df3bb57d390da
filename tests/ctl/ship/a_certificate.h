// A certificate with a new key, by a CA of the test or by itself.

#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace profd::test {

class ACertificate {
 public:
  // `names` as in openssl's x509v3_config, for example "DNS:a.example,IP:127.0.0.1"; "": a CA.
  explicit ACertificate(const std::string& names, const ACertificate* issuer = nullptr,
                        long seconds_left = 3600)
      : key_(EVP_EC_gen("P-256")), certificate_(::X509_new()) {
    X509* const certificate = certificate_.get();
    ::X509_set_version(certificate, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), issuer == nullptr ? 1 : 2);
    ::X509_gmtime_adj(::X509_getm_notBefore(certificate), -7200);
    ::X509_gmtime_adj(::X509_getm_notAfter(certificate), seconds_left);
    ::X509_set_pubkey(certificate, key_.get());
    // Two CAs of one name would be taken for the same one.
    const std::string subject = (names.empty() ? "CA " : "endpoint ") +
                                std::to_string(reinterpret_cast<std::uintptr_t>(key_.get()));
    X509_NAME* const name = ::X509_get_subject_name(certificate);
    ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1,
                                 0);
    ::X509_set_issuer_name(certificate, issuer == nullptr
                                            ? name
                                            : ::X509_get_subject_name(issuer->certificate_.get()));
    add(NID_basic_constraints, names.empty() ? "critical,CA:TRUE" : "CA:FALSE");
    if (!names.empty()) add(NID_subject_alt_name, names);
    ::X509_sign(certificate, issuer == nullptr ? key_.get() : issuer->key_.get(), ::EVP_sha256());
  }

  [[nodiscard]] X509* certificate() const { return certificate_.get(); }
  [[nodiscard]] EVP_PKEY* key() const { return key_.get(); }

  void write(const std::filesystem::path& certificate) const {
    const std::unique_ptr<BIO, Free> file(::BIO_new_file(certificate.c_str(), "w"));
    ::PEM_write_bio_X509(file.get(), certificate_.get());
  }
  void write_key(const std::filesystem::path& key) const {
    const std::unique_ptr<BIO, Free> file(::BIO_new_file(key.c_str(), "w"));
    ::PEM_write_bio_PrivateKey(file.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { ::X509_free(certificate); }
    void operator()(X509_EXTENSION* extension) const { ::X509_EXTENSION_free(extension); }
    void operator()(BIO* file) const { ::BIO_free(file); }
  };

  void add(int kind, const std::string& value) {
    X509V3_CTX context{};
    ::X509V3_set_ctx(&context, certificate_.get(), certificate_.get(), nullptr, nullptr, 0);
    const std::unique_ptr<X509_EXTENSION, Free> extension(
        ::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
    ::X509_add_ext(certificate_.get(), extension.get(), -1);
  }

  std::unique_ptr<EVP_PKEY, Free> key_;
  std::unique_ptr<X509, Free> certificate_;
};

}  // namespace profd::test
