// How a record describes itself: one list of its fields, with their names. Whoever writes or reads
// a record walks this list (store/record_text.h).
//
//   template <MaybeConst<PoolRecord> R, typename Io>
//   void VisitFields(R& pool, Io& io) {
//     io.Required("image", pool.image);
//     io.Optional("zone", pool.zone);
//   }
//
//   Required(name, value)         stands in every record
//   Added(name, value, before)    stands in every record since the list has it; older ones mean
//                                 `before`
//   Optional(name, value)         is left out while it has its default
//   Word(name, value, words)      an enumeration from 0 on: the word at its number; required
//   Word(name, value, to, from)   an enumeration by two functions; required
//   Group(name, value, visit)     fields in an object within the object, which is left out while
//                                 all of them have their defaults
//
// A value is a boolean, an integer, a text, a list, a map of texts, an optional, a network policy,
// or a struct that has a list of its own.
//
// A new field is Added or Optional, and nothing else changes. A field that gets another name, form
// or meaning needs a step in store/schema.cc, which changes the records that are there.
//
// A reader refuses a field that it does not know. The field was written by a newer release and may
// be a limit or a policy: a daemon that ignored it would run the sandbox without. A downgrade thus
// works as long as no record has an Optional field of the newer release, and else ends at the start
// with the name of the record and of the field.
#pragma once

#include <concepts>
#include <type_traits>

namespace atl::sandbox {

template <typename T, typename Plain>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Plain>;

// What every record has, whatever it is a record of.
template <typename R, typename Io>
void VisitHead(R& record, Io& io) {
  io.Required("created", record.created_at_ms);
}

}  // namespace atl::sandbox
