#include "ctl/ship/transport/http_auth.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include <sodium/utils.h>

#include "formats/base/base64.h"
#include "formats/base/errors.h"
#include "formats/base/unique_fd.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr std::size_t kMaxSecretBytes = std::size_t{8} << 10;

Error secret_error(ErrorCode code, const std::string& what) {
  return fail(code, what, "give one line, in a file that the user of profctl ship can read");
}

Result<std::string> read_secret(const std::string& path) {
  // A FIFO would keep the open waiting.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const Error error = fail_errno("could not open " + path);
    return secret_error(error.code, error.message);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail_errno("could not read " + path);
  if (!S_ISREG(status.st_mode)) {
    return secret_error(ErrorCode::kInvalidArgument, path + " is no regular file");
  }
  auto text = read_all(fd.get(), path, kMaxSecretBytes + 1);
  if (!text) return text.error();
  if (text->size() > kMaxSecretBytes) {
    return secret_error(ErrorCode::kTooLarge,
                        path + " has more than " + std::to_string(kMaxSecretBytes) + " bytes");
  }
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  if (text->empty()) return secret_error(ErrorCode::kInvalidArgument, path + " is empty");
  return text;
}

// What a header may have as it is. A password is encoded, and may have blanks and bytes that are no
// ASCII.
bool is_header_safe(std::string_view secret, bool is_encoded) {
  return std::ranges::all_of(secret, [is_encoded](unsigned char c) {
    return c != 0x7f && (is_encoded ? c >= ' ' : c > ' ' && c < 0x7f);
  });
}

void hide_secret(std::string& text, std::string_view secret) {
  constexpr std::string_view kHidden = "[secret]";
  if (secret.empty()) return;
  std::size_t place = text.find(secret);
  while (place != std::string::npos) {
    text.replace(place, secret.size(), kHidden);
    place = text.find(secret, place + kHidden.size());
  }
}

// Of what follows "Basic "; "" where it is something else.
std::string password_in(std::string_view coded) {
  std::string plain(coded.size(), '\0');
  std::size_t size = 0;
  const int error = ::sodium_base642bin(reinterpret_cast<unsigned char*>(plain.data()),
                                        plain.size(), coded.data(), coded.size(), nullptr, &size,
                                        nullptr, sodium_base64_VARIANT_ORIGINAL);
  if (error != 0) return {};
  plain.resize(size);
  const std::size_t colon = plain.find(':');
  return colon == std::string::npos ? std::string() : plain.substr(colon + 1);
}

}  // namespace

Result<std::string> read_authorization(const HttpAuth& auth) {
  const bool is_basic = !auth.password_file.empty();
  const std::string& path = is_basic ? auth.password_file : auth.bearer_token_file;
  if (path.empty()) return std::string();
  const auto secret = read_secret(path);
  if (!secret) return secret.error();
  if (!is_header_safe(*secret, is_basic)) {
    return secret_error(ErrorCode::kInvalidArgument, path + " has bytes that no header may have");
  }
  return is_basic ? basic_authorization(auth.username, *secret) : "Bearer " + *secret;
}

std::string basic_authorization(std::string_view user, std::string_view password) {
  std::string plain(user);
  plain.append(":").append(password);
  return "Basic " + base64_text(plain);
}

std::string without_secrets(std::string text, std::string_view authorization) {
  constexpr std::string_view kBasic = "Basic ";
  const std::string_view token = authorization.substr(authorization.find(' ') + 1);
  hide_secret(text, authorization);
  hide_secret(text, token);
  if (authorization.starts_with(kBasic)) hide_secret(text, password_in(token));
  return text;
}

}  // namespace profd
