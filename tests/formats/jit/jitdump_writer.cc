#include "tests/formats/jit/jitdump_writer.h"

#include <utility>

#include <boost/endian/conversion.hpp>

namespace profd {

using jitdump::RecordId;

void JitDumpWriter::put32(std::uint32_t value) {
  if (order_ != std::endian::native) boost::endian::endian_reverse_inplace(value);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void JitDumpWriter::put64(std::uint64_t value) {
  if (order_ != std::endian::native) boost::endian::endian_reverse_inplace(value);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void JitDumpWriter::begin(RecordId id, std::uint64_t total_bytes, std::uint64_t timestamp) {
  put32(static_cast<std::uint32_t>(id));
  put32(static_cast<std::uint32_t>(total_bytes));
  put64(timestamp);
}

void JitDumpWriter::header(const JitDumpHeader& header) {
  put32(jitdump::kMagic);
  put32(header.version);
  put32(header.total_bytes);
  put32(header.elf_machine);
  put32(header.pad);
  put32(header.pid);
  put64(header.timestamp);
  put64(header.flags);
  if (header.total_bytes > jitdump::kHeaderBytes)
    bytes_.append(header.total_bytes - jitdump::kHeaderBytes, '\0');
}

void JitDumpWriter::load(const JitDumpLoad& load) {
  begin(RecordId::kLoad, jitdump::kLoadBytes + load.name.size() + 1 + load.code.size(),
        load.timestamp);
  put32(load.pid);
  put32(load.tid);
  put64(load.address);
  put64(load.address);
  put64(load.code_bytes == 0 ? load.code.size() : load.code_bytes);
  put64(load.code_index);
  bytes_.append(load.name).push_back('\0');
  bytes_.append(load.code);
}

void JitDumpWriter::move(const JitDumpMove& move) {
  begin(RecordId::kMove, jitdump::kMoveBytes, move.timestamp);
  put32(move.pid);
  put32(move.tid);
  put64(move.new_address);
  put64(move.old_address);
  put64(move.new_address);
  put64(move.code_bytes);
  put64(move.code_index);
}

void JitDumpWriter::debug_info(std::uint64_t timestamp, std::uint64_t code_address,
                               std::span<const JitDumpLine> lines) {
  std::uint64_t total = jitdump::kDebugInfoBytes;
  for (const JitDumpLine& line : lines) total += jitdump::kDebugEntryBytes + line.file.size() + 1;
  begin(RecordId::kDebugInfo, total, timestamp);
  put64(code_address);
  put64(lines.size());
  for (const JitDumpLine& line : lines) {
    put64(line.address);
    put32(line.line);
    put32(line.discriminator);
    bytes_.append(line.file).push_back('\0');
  }
}

void JitDumpWriter::unwinding_info(std::uint64_t timestamp, std::string_view data,
                                   std::uint64_t hdr_bytes, std::uint64_t mapped_bytes) {
  const std::size_t padding = (8 - data.size() % 8) % 8;
  begin(RecordId::kUnwindingInfo, jitdump::kUnwindingInfoBytes + data.size() + padding, timestamp);
  put64(data.size());
  put64(hdr_bytes);
  put64(mapped_bytes);
  bytes_.append(data).append(padding, '\0');
}

void JitDumpWriter::close(std::uint64_t timestamp) {
  begin(RecordId::kClose, jitdump::kRecordHeaderBytes, timestamp);
}

void JitDumpWriter::record(std::uint32_t id, std::uint64_t timestamp, std::string_view body) {
  begin(static_cast<RecordId>(id), jitdump::kRecordHeaderBytes + body.size(), timestamp);
  bytes_.append(body);
}

std::string JitDumpWriter::take() { return std::exchange(bytes_, {}); }

}  // namespace profd
