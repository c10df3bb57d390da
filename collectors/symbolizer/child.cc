// The child's side of the symbolizer.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "collectors/symbolizer/messages.h"
#include "collectors/symbolizer/symbolizer.h"

namespace profd {
namespace {

using symbolizer::FramesRequest;
using symbolizer::MemoryLimits;
using symbolizer::Operation;

// The request's first word says which of the descriptors are there.
DwarfFiles files_of(const sandbox::Request& request, const std::vector<UniqueFd>& files) {
  std::size_t next = 0;
  const auto take = [&files, &next] { return next < files.size() ? files[next++].get() : -1; };
  DwarfFiles found{.file = take()};
  if ((request.words[0] & symbolizer::kHasDebugFile) != 0) found.debug_file = take();
  if ((request.words[0] & symbolizer::kHasAltFile) != 0) found.alt_file = take();
  return found;
}

Result<std::string> find_frames(const DwarfFiles& files, const UniqueFd& argument,
                                const MemoryLimits& memory) {
  const auto bytes = sandbox::read_sealed(argument.get(), symbolizer::kMaxRequestBytes);
  if (!bytes) return bytes.error();
  const auto wanted = sandbox::decode<FramesRequest>(*bytes);
  if (!wanted) return wanted.error();
  return sandbox::encode(
      find_dwarf_frames(files, wanted->addresses,
                        {.cpu_time = std::chrono::nanoseconds(wanted->cpu_time_ns),
                         .answer_bytes = symbolizer::kMaxAnswerBytes,
                         .decompressed_bytes = memory.decompressed_bytes}));
}

template <const MemoryLimits& kMemory>
Result<std::string> answer_of(const sandbox::Request& request, const std::vector<UniqueFd>& files) {
  if (!files.empty() && request.operation == static_cast<std::uint32_t>(Operation::kFindFrames)) {
    return find_frames(files_of(request, files), files.back(), kMemory);
  }
  if (request.operation == static_cast<std::uint32_t>(Operation::kFindAltLink)) {
    return sandbox::encode(find_alt_link(files_of(request, files)));
  }
  return fail(ErrorCode::kInternal, "the symbolizer has no such operation");
}

template <const MemoryLimits& kMemory>
void run_symbolizer(int socket) {
  sandbox::serve_requests(socket, &answer_of<kMemory>, SymbolizerLimits{}.idle_time);
}

}  // namespace

const sandbox::ChildKind kSymbolizerChild{
    .name = "symbolizer",
    .process_name = "profd-symbolize",
    .run = &run_symbolizer<symbolizer::kRootMemory>,
    .rules = {.private_bytes = symbolizer::kRootMemory.private_bytes, .finds_no_files = true}};

const sandbox::ChildKind kUserSymbolizerChild{
    .name = "user-symbolizer",
    .process_name = "profd-symbolize",
    .run = &run_symbolizer<symbolizer::kUserMemory>,
    .rules = {.private_bytes = symbolizer::kUserMemory.private_bytes, .finds_no_files = true}};

}  // namespace profd
