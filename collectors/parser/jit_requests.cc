#include "collectors/parser/jit_requests.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

namespace profd::parser {
namespace {

// The most that is read of one record; 100 KB is that of a large object.
constexpr std::size_t kMaxUnwindingBytes = std::size_t{4} << 20;

Result<std::uint64_t> size_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("could not read the file's size");
  return static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
}

// The bytes of a range, as far as the file has them.
Result<std::string> read_range(int fd, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("could not read the file");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

// Empty where the file no longer has the whole range, or an answer has no room for it.
std::string read_whole(int fd, const JitFileRange& range, std::size_t room) {
  constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 62;
  if (range.bytes == 0 || range.bytes > room || range.offset > kMaxOffset) return {};
  auto bytes = read_range(fd, range.offset, range.bytes);
  if (!bytes || bytes->size() != range.bytes) return {};
  return std::move(*bytes);
}

}  // namespace

Result<JitDumpChunk> read_jitdump_chunk(int fd, const JitDumpState& state) {
  static_assert(kJitChunkBytes >= kMinJitDumpRead);
  JitDumpChunk chunk{.state = state, .file_bytes = 0, .read = {}, .text = {}};
  const auto size = size_of(fd);
  if (!size) return size.error();
  chunk.file_bytes = *size;
  if (state.offset >= *size) return chunk;
  auto bytes =
      read_range(fd, state.offset, std::min<std::uint64_t>(*size - state.offset, kJitChunkBytes));
  if (!bytes) return bytes.error();
  chunk.text = std::make_unique<const std::string>(std::move(*bytes));
  auto events = read_jitdump(*chunk.text, *size, chunk.state);
  if (!events) return events.error();
  chunk.read = std::move(*events);
  return chunk;
}

Result<PerfMapChunk> read_perf_map_chunk(int fd, const PerfMapState& state) {
  static_assert(kJitChunkBytes >= kPerfMapOverlapBytes + kMaxPerfMapLineBytes);
  PerfMapChunk chunk{.state = state, .file_bytes = 0, .read = {}, .text = {}};
  const auto size = size_of(fd);
  if (!size) return size.error();
  chunk.file_bytes = *size;
  const std::uint64_t from = state.read_from();
  const std::uint64_t there = *size > from ? *size - from : 0;
  auto bytes = read_range(fd, from, std::min<std::uint64_t>(there, kJitChunkBytes));
  if (!bytes) return bytes.error();
  chunk.text = std::make_unique<const std::string>(std::move(*bytes));
  chunk.read = read_perf_map(*chunk.text, chunk.state);
  return chunk;
}

JitUnwindAnswers read_jit_unwind_rows(int fd, const JitUnwindRequest& request) {
  JitUnwindAnswers answers;
  std::size_t room = kMaxJitUnwindRows;
  for (const JitUnwindQuery& query : request.queries) {
    std::vector<JitUnwindRows>& functions = answers.emplace_back();
    const std::string record = read_whole(fd, query.unwinding_info, kMaxUnwindingBytes);
    if (record.empty()) continue;
    auto read = profd::read_jit_unwind_rows(record, request.state, query.address, query.code_bytes);
    if (!read) continue;
    std::size_t rows = 0;
    for (const JitUnwindRows& function : *read) rows += function.rows.size();
    if (rows > room) continue;
    room -= rows;
    functions = std::move(*read);
  }
  return answers;
}

Result<std::string> read_jit_code(int fd, const JitCodeRequest& request) {
  std::deque<std::string> storage;  // the answers point into the strings, so these may not move
  JitCodeAnswers answers;
  std::size_t room = kMaxJitCodeAnswerBytes;
  for (const JitCodeQuery& query : request.queries) {
    JitCodeAnswer& answer = answers.functions.emplace_back();
    answer.code = storage.emplace_back(read_whole(fd, query.code, room));
    room -= answer.code.size();
    const std::string& record = storage.emplace_back(read_whole(fd, query.debug_info, room));
    if (record.empty()) continue;
    answer.lines = decode_jit_lines(record, request.state, query.code_bytes, query.script);
    // Each line is sent with its file's name.
    std::size_t bytes = 0;
    for (const JitLine& line : answer.lines) bytes += line.file.size() + sizeof(JitLine);
    if (bytes > room) answer.lines.clear();
    room -= std::min(bytes, room);
  }
  return sandbox::encode(answers);
}

}  // namespace profd::parser
