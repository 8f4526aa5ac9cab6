// DNS messages for tests, written byte by byte: independent of the parser under test.
#pragma once

#include <array>
#include <cstdint>
#include <string>

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

// A recursive query, type A unless told.
inline std::string DnsQueryFor(const std::string& name, unsigned id, unsigned type = 1) {
  return DnsHeaderBytes(id, 0x0100, 1) + DnsName(name) + U16(type) + U16(1);
}

// The same with an EDNS record that takes answers of `udp_size`.
inline std::string DnsEdnsQueryFor(const std::string& name, unsigned id, unsigned udp_size) {
  return DnsHeaderBytes(id, 0x0100, 1, 0, 0, 1) + DnsName(name) + U16(1) + U16(1) +
         std::string(1, '\0') + U16(41) + U16(udp_size) + U16(0) + U16(0) + U16(0);
}

// An answer with one A record; only for queries without EDNS.
inline std::string DnsAnswerTo(const std::string& query, std::array<uint8_t, 4> address) {
  std::string answer = query.substr(0, 2) + U16(0x8180) + U16(1) + U16(1) + U16(0) + U16(0);
  answer += query.substr(12);
  answer += U16(0xc00c) + U16(1) + U16(1) + U16(0) + U16(60) + U16(4);
  for (const uint8_t byte : address) answer += static_cast<char>(byte);
  return answer;
}

// An answer without records.
inline std::string DnsEmptyAnswerTo(const std::string& query, unsigned flags) {
  const size_t question_end = query.find('\0', 12) + 5;
  return query.substr(0, 2) + U16(flags) + U16(1) + U16(0) + U16(0) + U16(0) +
         query.substr(12, question_end - 12);
}

inline std::string DnsFramed(const std::string& message) {
  return U16(static_cast<unsigned>(message.size())) + message;
}

}  // namespace atl::testing
