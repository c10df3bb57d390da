// The files of a result as a directory, as profctl writes them.

#pragma once

#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>

#include "daemon/storage/result_writer.h"
#include "formats/base/unique_fd.h"

namespace profd::test {

inline void write_unpacked(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// Of a writer that is not committed.
inline void unpack(const ResultWriter& writer, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  for (const PackedFile& file : writer.files()) {
    write_unpacked(directory / file.path, writer.read_back(file.path).value());
  }
}

// Of a result's file, with session.json.
inline void unpack(const std::filesystem::path& result, const std::filesystem::path& directory) {
  const UniqueFd file(::open(result.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid()) << result;
  const Result<ResultIndex> index = read_result_index(file.get(), 1 << 30);
  ASSERT_TRUE(index) << index.error().message;
  const boost::json::value json = boost::json::parse(index->text);
  const auto unpack_one = [&](const boost::json::value& one) {
    const auto bytes = read_at(file.get(), one.at("offset").to_number<std::uint64_t>(),
                               one.at("bytes").to_number<std::uint64_t>());
    write_unpacked(directory / std::string(one.at("path").as_string()), bytes.value());
  };
  for (const boost::json::value& one : json.at("files").as_array()) unpack_one(one);
  if (const auto* named = json.as_object().if_contains("named_profile")) unpack_one(*named);
  write_unpacked(directory / "session.json", boost::json::serialize(json.at("summary")));
}

}  // namespace profd::test
