#include "daemon/service/config_reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <toml++/toml.h>

#include "daemon/service/config_keys.h"
#include "formats/base/log_text.h"
#include "formats/base/nearest_name.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDropInDirectory = "conf.d";
constexpr const char* kCommandLine = "command line";
constexpr const char* kFormHint =
    "write KEY = VALUE; a value is a number, true or false, or a string in double quotes";

std::string place(const std::string& file, const toml::source_position& where) {
  return file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": ";
}

// Whether a parser's error is about the syntax of one line, not about a key that another line has.
bool is_syntax_error(const std::string& what) {
  return what.starts_with("Error while parsing") && what.find("redefine") == std::string::npos;
}

// For a key that belongs to another table.
std::string table_hint(const ConfigKey& key) {
  const std::string table(table_of(key.name));
  if (table.empty()) return "it belongs before the first [table] of the file";
  return "it belongs to the table [" + table + "]";
}

// Adds the values and the errors of a parsed file to a reading, key by key.
class FileReader {
 public:
  FileReader(const std::string& file, ConfigReading& reading) : file_(file), reading_(reading) {}

  // Sorts the errors by place, since a table has its keys in the order of their names.
  void read_file(const toml::table& table) {
    read_table(table, "");
    std::ranges::sort(invalid_, {}, [](const Invalid& one) {
      return std::pair(one.where.line, one.where.column);
    });
    for (Invalid& one : invalid_) {
      one.error.message = place(file_, one.where) + one.error.message;
      reading_.errors.push_back(std::move(one.error));
    }
  }

 private:
  struct Invalid {
    toml::source_position where;
    Error error;
  };

  void read_table(const toml::table& table, const std::string& name) {
    for (const auto& [key, node] : table) {
      const std::string whole = (name.empty() ? "" : name + ".") + std::string(key.str());
      if (const ConfigKey* known = find_config_key(whole)) {
        read_value(*known, node);
      } else if (names_in(whole).empty()) {
        refuse_key(key, whole, name);
      } else if (const toml::table* inner = node.as_table()) {
        read_table(*inner, whole);
      } else {
        add_error(node.source(), fail(ErrorCode::kInvalidArgument, whole + " must be a table",
                                      "begin it with [" + whole + "]"));
      }
    }
  }

  void read_value(const ConfigKey& key, const toml::node& node) {
    if (auto read = key.read(node, reading_.config); !read) {
      Error error = read.error();
      error.message = std::string(key.name) + " " + error.message;
      add_error(node.source(), std::move(error));
      return;
    }
    reading_.origins.insert_or_assign(std::string(key.name),
                                      file_ + ":" + std::to_string(node.source().begin.line));
  }

  void refuse_key(const toml::key& key, const std::string& whole, const std::string& table) {
    std::string hint = did_you_mean(nearest_names(key.str(), names_in(table)));
    if (const ConfigKey* elsewhere = find_in_any_table(key.str())) hint = table_hint(*elsewhere);
    add_error(key.source(),
              fail(ErrorCode::kInvalidArgument, "unknown key " + log_text(whole), std::move(hint)));
  }

  void add_error(const toml::source_region& where, Error error) {
    invalid_.push_back({where.begin, std::move(error)});
  }

  const std::string& file_;
  ConfigReading& reading_;
  std::vector<Invalid> invalid_;
};

void read_file(const std::string& path, bool must_exist, ConfigReading& reading) {
  const Result<std::string> text = read_whole_file(path);
  if (!text) {
    const bool is_absent = text.error().code == ErrorCode::kNotFound;
    if (must_exist || !is_absent) reading.errors.push_back(text.error());
    return;
  }
  reading.files.push_back(path);
  read_config_text(*text, path, reading);
}

// In the order of their names. Backups of editors and package managers have other suffixes.
std::vector<std::string> drop_ins_beside(const std::string& file, ConfigReading& reading) {
  const fs::path directory = fs::path(file).parent_path() / kDropInDirectory;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.ends_with(".toml") && !name.starts_with('.')) names.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    reading.errors.push_back(fail_errno("could not read " + directory.string(), error.value()));
  }
  std::ranges::sort(names);
  return names;
}

void read_command_line(const ConfigSource& source, ConfigReading& reading) {
  for (const auto& [name, text] : source.command_line) {
    const ConfigKey* const key = find_config_key(name);
    const toml::value<std::string> node(text);
    if (auto read = key->read(node, reading.config); !read) {
      Error error = read.error();
      error.message = std::string(kCommandLine) + ": " + name + " " + error.message;
      reading.errors.push_back(std::move(error));
    }
    reading.origins.insert_or_assign(name, kCommandLine);
  }
}

// A few of the errors of a file suffice to mend it.
void limit_errors(std::vector<Error>& errors) {
  constexpr std::size_t kMaxErrors = 20;
  if (errors.size() <= kMaxErrors) return;
  const std::size_t more = errors.size() - kMaxErrors;
  errors.erase(errors.begin() + kMaxErrors, errors.end());
  errors.push_back(
      fail(ErrorCode::kInvalidArgument, "and " + std::to_string(more) + " more errors"));
}

}  // namespace

void read_config_text(std::string_view text, const std::string& file, ConfigReading& reading) {
  try {
    FileReader(file, reading).read_file(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const std::string what(error.description());  // it has keys of the file
    reading.errors.push_back(fail(ErrorCode::kMalformed,
                                  place(file, error.source().begin) + log_text(what),
                                  is_syntax_error(what) ? kFormHint : ""));
  }
}

ConfigReading read_config(const ConfigSource& source) {
  ConfigReading reading;
  read_file(source.file, source.file_was_named, reading);
  for (const std::string& file : drop_ins_beside(source.file, reading)) {
    read_file(file, true, reading);
  }
  read_command_line(source, reading);
  limit_errors(reading.errors);
  return reading;
}

}  // namespace profd
