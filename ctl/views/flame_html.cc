#include "ctl/views/flame_html.h"

#include <algorithm>
#include <array>

#include <sodium/crypto_hash_sha256.h>

#include "ctl/page/page_files.h"
#include "ctl/views/flame_json.h"
#include "ctl/views/function_sums.h"
#include "formats/base/base64.h"

namespace profd {
namespace {

constexpr std::string_view kImport = "import ";
constexpr std::string_view kExport = "export ";
// Files of the page of profctl web alone.
constexpr std::string_view kOfWeb = "web";
constexpr std::size_t kFewNodes = 100;  // fit, whatever their names are

// For a Content-Security-Policy: the base 64 of the SHA-256.
std::string hash_of(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  ::crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(text.data()),
                       text.size());
  return base64_text({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

std::string style() {
  std::string text;
  for (const PageFile& file : page_files()) {
    if (file.name.ends_with(".css") && !file.name.starts_with(kOfWeb)) text += file.bytes;
  }
  return text;
}

// What stands before and after the tree.
struct PageFrame {
  std::string before;
  std::string after;
};

PageFrame make_frame() {
  const std::string script = joined_modules();
  const std::string css = style();
  return {
      .before =
          "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "script-src 'sha256-" +
          hash_of(script) + "'; style-src 'sha256-" + hash_of(css) +
          "'; base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          "<title>Flame graph - profd</title>\n<style>" +
          css +
          "</style>\n</head>\n<body>\n<noscript>This flame graph needs JavaScript. "
          "'profctl flame -o x.svg' writes a picture that does not.</noscript>\n"
          "<script type=\"application/json\" id=\"data\">",
      .after = "</script>\n<script type=\"module\">" + script + "</script>\n</body>\n</html>\n"};
}

}  // namespace

std::string joined_modules() {
  std::string script;
  for (const PageFile& file : page_files()) {
    if (!file.name.ends_with(".js") || file.name.starts_with(kOfWeb)) continue;
    std::string_view rest = file.bytes;
    while (!rest.empty()) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (line.starts_with(kImport)) continue;
      if (line.starts_with(kExport)) line.remove_prefix(kExport.size());
      script.append(line).append("\n");
    }
  }
  return script;
}

std::string flame_html(CallTree& tree, std::string_view title) {
  const PageFrame frame = make_frame();
  const std::size_t left = kMaxFlameBytes - frame.before.size() - frame.after.size();
  const FunctionSums sums = sums_of_functions(tree);
  prune(tree, kMaxFlameNodes, 0);
  std::string data = flame_json(tree, title, sums);
  while (data.size() > left && tree.nodes.size() > kFewNodes) {
    prune(tree, tree.nodes.size() / 2, 0);
    data = flame_json(tree, title, sums);
  }
  return frame.before + data + frame.after;
}

}  // namespace profd
