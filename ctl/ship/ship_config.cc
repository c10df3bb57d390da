#include "ctl/ship/ship_config.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "formats/base/errors.h"
#include "formats/base/log_text.h"
#include "formats/base/nearest_name.h"
#include "formats/base/utf8_text.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
// Of all kinds: each has a thread, and one for its lookups, and profd-ship.service has 64 tasks.
constexpr std::size_t kMaxEndpoints = 16;
constexpr std::size_t kMaxRules = 1000;
constexpr std::size_t kMaxRuleLabels = 16;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::size_t kMaxTextBytes = 1024;
constexpr std::int64_t kMostServices = 5000;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// It names a file.
bool is_endpoint_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && !name.starts_with('.') &&
         std::ranges::all_of(name, [](char c) {
           return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.';
         });
}

// As Prometheus and Parca want it; "__" is for their own.
bool is_label_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && !is_digit(name.front()) &&
         !name.starts_with("__") &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

// "127.0.0.1:9464", "[::1]:9464".
std::optional<MetricsListen> parse_listen(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || has_controls(text)) return std::nullopt;
  std::string_view address = text.substr(0, colon);
  const std::string port(text.substr(colon + 1));
  const bool is_ipv6 = address.starts_with('[') && address.ends_with(']');
  if (is_ipv6) address = address.substr(1, address.size() - 2);
  MetricsListen listen;
  listen.address = address;
  in6_addr ignored{};  // large enough for both
  if (::inet_pton(is_ipv6 ? AF_INET6 : AF_INET, listen.address.c_str(), &ignored) != 1 ||
      (port != "0" && !is_tcp_port(port))) {
    return std::nullopt;
  }
  listen.port = static_cast<std::uint16_t>(std::stoul(port));
  return listen;
}

// On one line. The parser has written control characters as escapes; it names keys of the file.
std::string text_of_parse_error(std::string_view description) {
  constexpr std::string_view kLineEnd = "'\\n'";
  constexpr std::size_t kMaxMessageBytes = 200;
  std::string text(description);
  std::size_t place = text.find(kLineEnd);
  while (place != std::string::npos) {
    text.replace(place, kLineEnd.size(), "the end of the line");
    place = text.find(kLineEnd, place);
  }
  return printable_utf8(text, kMaxMessageBytes);
}

// Names the nearest keys; without one, those that contain `key`, as bearer_token_file does "token";
// without one, all.
std::string hint_for_key(std::string_view key, const std::vector<std::string_view>& known) {
  const std::vector<std::string_view> nearest = nearest_names(key, known);
  if (!nearest.empty()) return did_you_mean(nearest);
  std::vector<std::string_view> longer;
  longer.reserve(known.size());
  std::ranges::copy_if(known, std::back_inserter(longer), [key](std::string_view name) {
    return !key.empty() && name.find(key) != std::string_view::npos;
  });
  if (!longer.empty()) return did_you_mean(longer);
  return "known keys: " + enumeration(known, " and ");
}

// Reads the tables of a file into a ShipConfigReading, and collects what is wrong with its places.
class ShipConfigReader {
 public:
  ShipConfigReader(const std::string& file, ShipConfigReading& reading)
      : file_(file), reading_(reading) {}

  void read_file(const toml::table& file) {
    ShipConfig& config = reading_.config;
    SplitOptions& split = config.split;
    read_keys(file, {{"host", [&](const toml::node& node) { read_text(node, "host", split.host); }},
                     {"max_services", [&](const toml::node& node) { read_max_services(node); }},
                     {"metrics", [&](const toml::node& node) { read_metrics(node); }},
                     {"pyroscope", endpoints("pyroscope", config.pyroscope)},
                     {"parca", endpoints("parca", config.parca)},
                     {"otlp", endpoints("otlp", config.otlp)},
                     {"service", [&](const toml::node& node) {
                        each_table(node, "service", kMaxRules,
                                   [&](const toml::table& table) { read_rule(table); });
                      }}});
    const bool has_endpoint =
        !config.pyroscope.empty() || !config.parca.empty() || !config.otlp.empty();
    if (!has_endpoint && invalid_.empty()) {
      add_error({1, 1}, "no endpoint is named",
                "add one: [[pyroscope]], name = \"a\", url = \"http://HOST:4040\"");
    }
    std::ranges::stable_sort(invalid_, {}, [](const Invalid& one) {
      return std::pair(one.where.line, one.where.column);
    });
    for (Invalid& one : invalid_) reading_.errors.push_back(std::move(one.error));
  }

  void add_error(const toml::source_position& where, const std::string& what,
                 const std::string& hint = {}) {
    invalid_.push_back({where, invalid_argument(place_of(where) + what, hint)});
  }

 private:
  struct Invalid {
    toml::source_position where;
    Error error;
  };
  using ReadNode = std::function<void(const toml::node& node)>;
  using KnownKeys = std::map<std::string_view, ReadNode, std::less<>>;

  [[nodiscard]] std::string place_of(const toml::source_position& where) const {
    return file_ + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": ";
  }

  void read_keys(const toml::table& table, const KnownKeys& known) {
    for (const auto& [key, node] : table) {
      const auto found = known.find(key.str());
      if (found != known.end()) {
        found->second(node);
        continue;
      }
      std::vector<std::string_view> names;
      names.reserve(known.size());
      for (const auto& [name, read] : known) names.push_back(name);
      add_error(key.source().begin, "unknown key " + log_text(key.str()),
                hint_for_key(key.str(), names));
    }
  }

  void each_table(const toml::node& node, const std::string& name, std::size_t most,
                  const std::function<void(const toml::table&)>& read) {
    const toml::array* const list = node.as_array();
    if (list == nullptr ||
        !std::ranges::all_of(*list, [](const toml::node& one) { return one.is_table(); })) {
      add_error(node.source().begin, name + " must be a list of tables",
                "begin each of its tables with [[" + name + "]]" +
                    (node.is_table() ? " instead of [" + name + "]" : ""));
      return;
    }
    if (list->size() > most) {
      add_error(node.source().begin,
                name + " must have at most " + std::to_string(most) + " tables [[" + name + "]]");
      return;
    }
    for (const toml::node& one : *list) read(*one.as_table());
  }

  void read_text(const toml::node& node, const std::string& name, std::string& out) {
    const auto text = node.value_exact<std::string>();
    if (!text || text->empty() || text->size() > kMaxTextBytes || has_controls(*text)) {
      add_error(node.source().begin, name + " must be a string that is not empty");
      return;
    }
    out = *text;
  }

  void read_max_services(const toml::node& node) {
    const auto number = node.value_exact<std::int64_t>();
    if (!number || *number < 1 || *number > kMostServices) {
      add_error(node.source().begin,
                "max_services must be a number from 1 to " + std::to_string(kMostServices));
      return;
    }
    reading_.config.split.max_services = static_cast<std::size_t>(*number);
  }

  void read_metrics(const toml::node& node) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      add_error(node.source().begin, "metrics must be a table", "begin it with [metrics]");
      return;
    }
    read_keys(*table, {{"listen", [&](const auto& value) { read_listen(value); }}});
    if (!table->contains("listen")) {
      add_error(node.source().begin, "metrics has no listen", "add listen = \"127.0.0.1:9464\"");
    }
  }

  void read_listen(const toml::node& node) {
    const auto text = node.value_exact<std::string>();
    reading_.config.metrics = parse_listen(text.value_or(""));
    if (reading_.config.metrics) return;
    add_error(node.source().begin, "listen must be ADDRESS:PORT, with the number of an address",
              "127.0.0.1:9464 and [::1]:9464 are for this host alone, 0.0.0.0:9464 for others too");
  }

  // Those of one kind. Some kinds have a tenant.
  template <class Endpoint>
  ReadNode endpoints(const char* kind, std::vector<Endpoint>& out) {
    return [this, kind, &out](const toml::node& node) {
      each_table(node, kind, kMaxEndpoints,
                 [this, &out](const toml::table& table) { read_endpoint(table, out); });
    };
  }

  template <class Endpoint>
  void read_endpoint(const toml::table& table, std::vector<Endpoint>& out) {
    if (++endpoint_count_ == kMaxEndpoints + 1) {
      add_error(table.source().begin,
                "there are more than " + std::to_string(kMaxEndpoints) + " endpoints",
                "remove some: the limit is that of all kinds together");
    }
    Endpoint endpoint;
    KnownKeys known = http_keys(endpoint.http);
    if constexpr (requires { endpoint.tenant; }) {
      known.emplace("tenant", [&](const toml::node& node) { read_tenant(node, endpoint.tenant); });
    }
    read_keys(table, known);
    check_http(table, endpoint.http);
    out.push_back(std::move(endpoint));
  }

  // The keys that endpoints of all kinds have.
  KnownKeys http_keys(HttpEndpoint& http) {
    KnownKeys known{{"name", [this, &http](const toml::node& node) { read_name(node, http.name); }},
                    {"url", [this, &http](const toml::node& node) { read_url(node, http); }},
                    {"basic_auth",
                     [this, &http](const toml::node& node) { read_basic_auth(node, http.auth); }}};
    const std::array<std::pair<std::string_view, std::string*>, 4> files{
        {{"bearer_token_file", &http.auth.bearer_token_file},
         {"ca_file", &http.tls.ca_file},
         {"cert_file", &http.tls.cert_file},
         {"key_file", &http.tls.key_file}}};
    for (const auto& [key, path] : files) {
      known.emplace(key, [this, name = std::string(key), out = path](const toml::node& node) {
        read_path(node, name, *out);
      });
    }
    return known;
  }

  // What the keys of an endpoint must have together.
  void check_http(const toml::table& table, const HttpEndpoint& http) {
    if (!table.contains("name")) {
      add_error(table.source().begin, "the endpoint has no name",
                "add one that no other endpoint has: name = \"a\"");
    }
    if (!table.contains("url")) {
      add_error(table.source().begin, "the endpoint has no url",
                "add where the engine listens: url = \"http://HOST:PORT\"");
    }
    require_other(table, "cert_file", "key_file");
    require_other(table, "key_file", "cert_file");
    if (table.contains("basic_auth") && table.contains("bearer_token_file")) {
      add_key_error(table, "bearer_token_file", "an endpoint with basic_auth has no other secret",
                    "remove one of both");
    }
    if (http.address.host.empty() || http.address.is_https) return;
    for (const char* key : {"ca_file", "cert_file", "key_file"}) {
      add_key_error(table, key, std::string(key) + " is for an https url",
                    "give an https url, or remove " + std::string(key));
    }
    if (is_loopback_host(http.address.host)) return;
    for (const char* key : {"basic_auth", "bearer_token_file"}) {
      add_key_error(table, key,
                    "the secret of " + std::string(key) + " would be sent in clear text",
                    "give an https url");
    }
  }

  void require_other(const toml::table& table, const std::string& key, const std::string& other) {
    if (table.contains(other)) return;
    add_key_error(table, key, key + " needs " + other,
                  "give both, or neither; one PEM file may have both");
  }

  // At the value of a key, if it is there.
  void add_key_error(const toml::table& table, std::string_view key, const std::string& what,
                     const std::string& hint) {
    const toml::node* const node = table.get(key);
    if (node != nullptr) add_error(node->source().begin, what, hint);
  }

  void read_path(const toml::node& node, const std::string& name, std::string& path) {
    const auto text = node.value_exact<std::string>();
    if (!text || !text->starts_with('/') || text->size() > kMaxTextBytes || has_controls(*text)) {
      add_error(node.source().begin, name + " must be an absolute path");
      return;
    }
    reading_.files.push_back({.key = name, .path = *text, .place = place_of(node.source().begin)});
    path = *text;
  }

  void read_basic_auth(const toml::node& node, HttpAuth& auth) {
    const toml::table* const table = node.as_table();
    if (table == nullptr || !table->contains("username") || !table->contains("password_file")) {
      add_error(node.source().begin, "basic_auth must have a username and a password_file",
                "write basic_auth = { username = \"...\", password_file = \"/...\" }");
    }
    if (table == nullptr) return;
    read_keys(*table, {{"username", [&](const auto& name) { read_username(name, auth.username); }},
                       {"password_file", [&](const auto& path) {
                          read_path(path, "password_file", auth.password_file);
                        }}});
  }

  // A colon ends it in the header (RFC 7617).
  void read_username(const toml::node& node, std::string& username) {
    read_text(node, "username", username);
    if (username.find(':') == std::string::npos) return;
    add_error(node.source().begin, "username must have no colon");
  }

  void read_name(const toml::node& node, std::string& name) {
    const auto text = node.value_exact<std::string>();
    if (!text || !is_endpoint_name(*text)) {
      add_error(node.source().begin, "name must have 1 to 64 letters, digits, '-', '_' and '.'");
      return;
    }
    const toml::source_position here = node.source().begin;
    const auto [first, is_new] = names_.emplace(*text, here);
    if (!is_new) {
      // Kinds are not read in the order of the file: the place is that of the later one.
      const toml::source_position other = first->second;
      add_error(other.line > here.line ? other : here, "two endpoints have the name " + *text);
    }
    name = *text;
  }

  void read_url(const toml::node& node, HttpEndpoint& endpoint) {
    read_text(node, "url", endpoint.url);
    if (endpoint.url.empty()) return;
    auto address = parse_http_url(endpoint.url);
    if (address) {
      endpoint.address = std::move(*address);
    } else {
      add_error(node.source().begin, "url " + address.error().message, address.error().hint);
    }
  }

  // What may stand in a header.
  void read_tenant(const toml::node& node, std::string& tenant) {
    const auto text = node.value_exact<std::string>();
    const auto is_visible = [](char c) { return c > ' ' && c <= '~'; };
    if (text && !text->empty() && text->size() <= 150 && std::ranges::all_of(*text, is_visible)) {
      tenant = *text;
    } else {
      add_error(node.source().begin, "tenant must have 1 to 150 visible ASCII characters");
    }
  }

  void read_rule(const toml::table& table) {
    ServiceRule rule;
    KnownKeys known{{"service_name",
                     [&](const auto& node) { read_template(node, "service_name", rule.service); }},
                    {"drop", [&](const auto& node) { read_drop(node, rule.drop); }},
                    {"labels", [&](const auto& node) { read_labels(node, rule.labels); }}};
    for (const std::string_view key : service_keys()) {
      known.emplace(key, [this, &rule, key](const toml::node& node) {
        read_pattern(node, std::string(key), rule);
      });
    }
    read_keys(table, known);
    if (!table.contains("service_name") && !table.contains("labels") && !table.contains("drop")) {
      add_error(table.source().begin, "the rule does nothing",
                "give service_name, labels or drop = true");
    } else if (rule.drop && (!rule.service.empty() || !rule.labels.empty())) {
      add_error(table.source().begin, "a rule with drop = true has no service_name and no labels");
    }
    reading_.config.split.rules.push_back(std::move(rule));
  }

  // A text with placeholders.
  void read_template(const toml::node& node, const std::string& name, std::string& out) {
    read_text(node, name, out);
    const std::string key = unknown_placeholder(out);
    if (key.empty()) return;
    const std::string nearest = did_you_mean(nearest_names(key, service_keys()));
    add_error(node.source().begin, name + " has the unknown placeholder {" + log_text(key) + "}",
              nearest.empty() ? "the keys are " + enumeration(service_keys(), " and ") : nearest);
  }

  void read_pattern(const toml::node& node, const std::string& key, ServiceRule& rule) {
    const auto text = node.value_exact<std::string>();
    if (!text || text->size() > kMaxTextBytes) {
      add_error(node.source().begin, key + " must be a string, in which * stands for any text");
      return;
    }
    rule.patterns.emplace(key, *text);
  }

  void read_drop(const toml::node& node, bool& drop) {
    const auto flag = node.value_exact<bool>();
    if (!flag) add_error(node.source().begin, "drop must be true or false");
    drop = flag.value_or(false);
  }

  void read_labels(const toml::node& node, std::map<std::string, std::string>& labels) {
    const toml::table* const table = node.as_table();
    if (table == nullptr || table->size() > kMaxRuleLabels) {
      add_error(node.source().begin,
                "labels must be a table of at most " + std::to_string(kMaxRuleLabels) + " strings");
      return;
    }
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      if (!is_label_name(name) || name == kServiceLabel || name == "host") {
        add_error(key.source().begin, log_text(name) + " can't be the name of a label",
                  "a name has letters, digits and _, and is not service_name or host");
        continue;
      }
      read_template(value, "the label " + name, labels[name]);
    }
  }

  const std::string& file_;
  ShipConfigReading& reading_;
  std::map<std::string, toml::source_position> names_;  // of endpoints
  std::size_t endpoint_count_ = 0;
  std::vector<Invalid> invalid_;
};

}  // namespace

ShipConfigReading read_ship_config(std::string_view text, const std::string& file) {
  ShipConfigReading reading;
  ShipConfigReader reader(file, reading);
  try {
    reader.read_file(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const auto& where = error.source().begin;
    reading.errors.push_back(invalid_argument(file + ":" + std::to_string(where.line) + ":" +
                                              std::to_string(where.column) + ": " +
                                              text_of_parse_error(error.description())));
  }
  return reading;
}

Result<ShipConfigReading> load_ship_config(const std::string& file) {
  const auto text = read_whole_file(file, AT_FDCWD, kMaxFileBytes + 1);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, text.error().message,
                "copy " + std::string(kShipExampleFile) + " to " + file +
                    " and correct its url, or give another file with --config FILE");
  }
  if (!text) return text.error();
  if (text->size() > kMaxFileBytes) return invalid_argument(file + " has more than 1 MiB");
  return read_ship_config(*text, file);
}

}  // namespace profd
