#include "daemon/profiles/session_writer.h"

#include <string>
#include <string_view>
#include <utility>

#include "collectors/host/kernel_release.h"
#include "daemon/profiles/jit_images.h"
#include "daemon/profiles/kernel_image.h"
#include "daemon/profiles/object_images.h"
#include "daemon/profiles/profile_files.h"
#include "formats/base/whole_file.h"
#include "formats/proc/kallsyms.h"

namespace profd {
namespace {

KernelImage make_kernel_image(const SessionSnapshot& snapshot, const std::string& release) {
  if (snapshot.hide_kernel) return KernelImage::hidden();
  const std::set<std::uint64_t> addresses = kernel_addresses(snapshot);
  if (addresses.empty()) return KernelImage::hidden();
  Result<std::string> text = read_whole_file("/proc/kallsyms");
  if (!text) return KernelImage::hidden();
  const Result<KernelSymbols> symbols = KernelSymbols::parse(std::move(*text));
  return symbols ? KernelImage::named(*symbols, release, addresses) : KernelImage::hidden();
}

Result<void> write_images(const SessionSnapshot& snapshot, const KernelImage& kernel,
                          const ObjectImages& objects, SymbolBudgets& symbols,
                          ResultWriter& result) {
  if (has_kernel_frames(snapshot)) {
    auto added = result.add(path_in_result(kernel.line_path()), kernel.encode());
    if (!added) return added;
  }
  return objects.write(result, max_images_bytes(!snapshot.hide_kernel), symbols);
}

}  // namespace

Result<SessionSummary> write_session(const SessionSnapshot& snapshot, Parser& parser,
                                     ResultWriter& result) {
  const std::string release = kernel_release();
  ObjectImages objects(parser, release);
  const KernelImage kernel = make_kernel_image(snapshot, release);
  EntryFunctions entries(parser);
  SymbolBudgets symbols;
  ResultJitImages jit(parser, max_images_bytes(!snapshot.hide_kernel), result);
  Result<SessionSummary> summary = write_profiles(
      snapshot,
      {.objects = objects, .kernel = kernel, .entries = entries, .symbols = symbols, .jit = &jit},
      result);
  if (!summary) return summary;
  if (auto written = write_images(snapshot, kernel, objects, symbols, result); !written) {
    return written.error();
  }
  return summary;
}

}  // namespace profd
