// Builds DNS messages for tests byte by byte, independently of the parser under test.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace atl::testing {

inline std::string U16(unsigned value) {
  return {static_cast<char>(value >> 8 & 0xff), static_cast<char>(value & 0xff)};
}

inline std::string DnsName(const std::string& dotted) {
  std::string wire;
  size_t at = 0;
  while (at < dotted.size()) {
    const size_t dot = std::min(dotted.find('.', at), dotted.size());
    wire += static_cast<char>(dot - at);
    wire += dotted.substr(at, dot - at);
    at = dot + 1;
  }
  return wire + '\0';
}

inline std::string DnsHeaderBytes(unsigned id, unsigned flags, unsigned questions,
                                  unsigned answers = 0, unsigned authorities = 0,
                                  unsigned additionals = 0) {
  return U16(id) + U16(flags) + U16(questions) + U16(answers) + U16(authorities) + U16(additionals);
}

// Returns a recursive query, type A by default.
inline std::string DnsQueryFor(const std::string& name, unsigned id, unsigned type = 1) {
  return DnsHeaderBytes(id, 0x0100, 1) + DnsName(name) + U16(type) + U16(1);
}

// Returns the same query with an EDNS record that accepts answers of up to `udp_size` bytes.
inline std::string DnsEdnsQueryFor(const std::string& name, unsigned id, unsigned udp_size) {
  return DnsHeaderBytes(id, 0x0100, 1, 0, 0, 1) + DnsName(name) + U16(1) + U16(1) +
         std::string(1, '\0') + U16(41) + U16(udp_size) + U16(0) + U16(0) + U16(0);
}

// Returns name, type and class of a query.
inline std::string DnsQuestionOf(const std::string& query) {
  return query.substr(12, query.find('\0', 12) + 5 - 12);
}

// Returns a record of the class IN.
inline std::string DnsRecordBytes(const std::string& name_bytes, unsigned type, uint32_t ttl,
                                  const std::string& data) {
  return name_bytes + U16(type) + U16(1) + U16(ttl >> 16) + U16(ttl) +
         U16(static_cast<unsigned>(data.size())) + data;
}

// Returns an answer with the given answer and authority sections.
inline std::string DnsRecordsTo(const std::string& query, const std::vector<std::string>& answers,
                                const std::vector<std::string>& authorities = {},
                                unsigned flags = 0x8180) {
  std::string message =
      query.substr(0, 2) + U16(flags) + U16(1) + U16(static_cast<unsigned>(answers.size())) +
      U16(static_cast<unsigned>(authorities.size())) + U16(0) + DnsQuestionOf(query);
  for (const std::string& record : answers) message += record;
  for (const std::string& record : authorities) message += record;
  return message;
}

// Returns an answer with one A record, without EDNS.
inline std::string DnsAnswerTo(const std::string& query, std::array<uint8_t, 4> address,
                               uint32_t ttl = 60) {
  return DnsRecordsTo(
      query, {DnsRecordBytes(U16(0xc00c), 1, ttl, std::string(address.begin(), address.end()))});
}

// Returns an answer without records.
inline std::string DnsEmptyAnswerTo(const std::string& query, unsigned flags) {
  return DnsRecordsTo(query, {}, {}, flags);
}

// Returns the OPT record that our resolvers append to an answer if the query had EDNS.
inline std::string DnsOptBytes(unsigned flags = 0) {
  return std::string(1, '\0') + U16(41) + U16(1232) + U16(0) + U16(flags) + U16(0);
}

inline std::string DnsSoaData(const std::string& zone, uint32_t minimum) {
  return DnsName("ns." + zone) + DnsName("root." + zone) + U16(0) + U16(1) + U16(0) + U16(7200) +
         U16(0) + U16(3600) + U16(0) + U16(60000) + U16(minimum >> 16) + U16(minimum);
}

inline std::string DnsFramed(const std::string& message) {
  return U16(static_cast<unsigned>(message.size())) + message;
}

}  // namespace atl::testing
