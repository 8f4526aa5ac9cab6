// A record describes itself by one list of its named fields. The code that writes or reads a
// record walks this list (store/record_text.h).
//
//   template <MaybeConst<PoolRecord> R, typename Io>
//   void VisitFields(R& pool, Io& io) {
//     io.Required("image", pool.image);
//     io.Optional("zone", pool.zone);
//   }
//
//   Required(name, value)         every record has the field
//   Added(name, value, before)    records have the field since it was added to the list; in an
//                                 older record it reads as `before`
//   Optional(name, value)         the writer omits a value that equals its default
//   Word(name, value, words)      an enumeration from 0 on: the word at its number; required
//   Word(name, value, to, from)   an enumeration by two functions; required
//   Group(name, value, visit)     fields in a nested object; the writer omits the object while all
//                                 its fields have their defaults
//
// A value is a boolean, an integer, a text, a list, a map of texts, an optional, a network policy,
// or a struct that has a list of its own.
//
// Make a new field Added or Optional; nothing else changes. A field that gets another name, form
// or meaning needs a step in store/schema.cc, which migrates existing records.
//
// A reader rejects an unknown field. A newer release wrote the field, and it may be a limit or a
// policy: a daemon that ignored it would run the sandbox without the limit. So a downgrade works
// only if no record has an Optional field of the newer release. Otherwise the daemon stops at its
// start and names the record and the field.
#pragma once

#include <concepts>
#include <type_traits>

namespace atl::sandbox {

template <typename T, typename Plain>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Plain>;

// The fields that records of every kind have.
template <typename R, typename Io>
void VisitHead(R& record, Io& io) {
  io.Required("created", record.created_at_ms);
}

}  // namespace atl::sandbox
