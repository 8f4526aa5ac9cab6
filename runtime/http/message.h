// HTTP messages as plain types. No type of a library leaves this folder.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::http {

struct Header {
  std::string name;
  std::string value;
};

struct Headers {
  std::vector<Header> list;

  // Returns the first value of that name, ignoring case. Empty if there is none.
  std::string_view Get(std::string_view name) const;
  bool Has(std::string_view name) const;
  void Set(std::string name, std::string value);  // replaces all fields of that name
  void Add(std::string name, std::string value);
  void Remove(std::string_view name);
};

// The head of a request. `target` is as received. `path` is its part before '?', `query` the part
// after it, both not decoded.
struct Request {
  std::string method;  // unchanged, because methods are case-sensitive
  std::string target;
  std::string_view path() const;
  std::string_view query() const;
  Headers headers;
  std::string peer;  // "127.0.0.1:41234"
  bool tls = false;  // received over TLS
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;
};

}  // namespace atl::http
