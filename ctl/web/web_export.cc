#include "ctl/web/web_export.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <numeric>

#include "ctl/views/call_tree.h"
#include "ctl/views/flame_html.h"
#include "ctl/views/flame_svg.h"
#include "ctl/views/samples_gperftools.h"
#include "ctl/views/samples_pprof.h"
#include "ctl/views/selected_samples.h"
#include "ctl/web/view_fields.h"
#include "formats/base/errors.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/stack_texts.h"

namespace profd {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr const char* kImageName = "profile.names.so";
constexpr std::array<std::string_view, 4> kProfileForms = {"pprof", "folded", "speedscope",
                                                           "gperftools"};

// A file of a ustar archive (POSIX.1-2017, pax: "ustar Interchange Format").
std::string tar_member(const std::string& name, const std::string& bytes) {
  std::array<char, kTarBlock> header{};
  const auto put = [&header](std::size_t offset, std::string_view text) {
    std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  const auto octal = [](std::uint64_t number, std::size_t digits) {
    std::string text(digits, '0');
    for (std::size_t i = digits; i > 0; --i, number /= 8) {
      text[i - 1] = static_cast<char>('0' + number % 8);
    }
    return text;
  };
  put(0, name);
  put(100, octal(0644, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(bytes.size(), 11));
  put(136, octal(0, 11));
  put(148, "        ");  // the sum counts itself as blanks
  put(156, "0");
  put(257, std::string_view("ustar\00000", 8));
  const auto sum = std::accumulate(
      header.begin(), header.end(), std::uint64_t{0},
      [](std::uint64_t all, char byte) { return all + static_cast<unsigned char>(byte); });
  put(148, octal(sum, 6) + std::string(1, '\0') + " ");
  std::string member(header.begin(), header.end());
  member += bytes;
  member.resize((member.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return member;
}

std::string gperftools_tar(const Samples& samples) {
  ImagedProfile made = gperftools_of_samples(samples);
  made.profile.build_dir = ".";
  made.profile.mappings.front().path = std::string("$build/") + kImageName;
  return tar_member("profile.prof", encode_gperftools(made.profile)) +
         tar_member(kImageName, made.image) + std::string(2 * kTarBlock, '\0');
}

WebReply download(std::string file_name, std::string type, std::string bytes) {
  return {.type = std::move(type), .body = std::move(bytes), .file_name = std::move(file_name)};
}

// One of kProfileForms.
WebReply download_profile(const Samples& samples, const std::string& title, std::string_view form) {
  if (form == "pprof") {
    return download("profile.pb.gz", "application/octet-stream",
                    encode_pprof_gzip(pprof_of_samples(samples)));
  }
  if (form == "folded") {
    return download("profile.folded", "text/plain; charset=utf-8",
                    folded_stacks(pprof_of_samples(samples)));
  }
  if (form == "speedscope") {
    return download(
        "profile.speedscope.json", "application/json",
        speedscope_json(pprof_of_samples(samples), printable_utf8(title, kMaxPrintableBytes)));
  }
  return download("profile.tar", "application/x-tar", gperftools_tar(samples));
}

}  // namespace

WebReply export_samples(const Source& source, std::string_view form,
                        const SelectionPatterns& patterns, NameForm names) {
  const Selection selection(source.samples, patterns);
  if (form == "html" || form == "svg") {
    CallTree tree = make_tree(selection, {.names = names});
    if (tree.nodes.empty()) return reply_of(nothing_is_left());
    return form == "html"
               ? download("flame.html", "text/html; charset=utf-8", flame_html(tree, source.title))
               : download("flame.svg", "image/svg+xml", flame_svg(tree, source.title));
  }
  if (std::ranges::find(kProfileForms, form) == kProfileForms.end()) {
    return reply_of(invalid_argument("no form '" + std::string(form.substr(0, 64)) + "'"));
  }
  // A target or time removes samples alone: the names of the others are still in the source.
  const Samples selected = selected_samples(selection);
  if (selected.rows().empty()) return reply_of(nothing_is_left());
  return download_profile(selected, source.title, form);
}

}  // namespace profd
