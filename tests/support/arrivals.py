# SPDX-License-Identifier: MIT
"""What arrived, held against what was committed.  Each check is fed with what
is wrong by controls(), and has to notice it.

A message (rig.Message) names its key and sequence in CloudEvents properties.
"""
import proof


def firsts(messages):
    """Without what came before under the same id."""
    return list({m.id: m for m in reversed(messages)}.values())[::-1]


def lost(committed, messages):
    """Payloads that were committed and never came, and that came and never
    were committed."""
    came = {m.payload for m in messages}
    return sorted(set(committed) - came), sorted(came - set(committed))


def disorder(messages):
    """Where the first deliveries of a key (and lane: the topic) do not ascend
    in seq: [key, seq before, seq]."""
    seen, last, wrong = set(), {}, []
    for message in messages:
        key = message.property("partitionkey")
        if message.id in seen or key is None:
            continue
        seen.add(message.id)
        seq = int(message.property("sequence").split("-")[-1])
        place = (key, message.topic)
        if seq <= last.get(place, 0):
            wrong.append([key, last[place], seq])
        last[place] = seq
    return wrong


def renamed(messages):
    """Payloads that came under more than one id.  (Each payload is put
    once.)"""
    ids = {}
    for message in messages:
        ids.setdefault(message.payload, set()).add(message.id)
    return sorted(payload for payload, all_ in ids.items() if len(all_) > 1)


def check(case, committed, messages):
    """All came, in order per key, each under one id; so often one came
    again."""
    case.assertEqual(lost(committed, messages), ([], []))
    case.assertEqual(renamed(messages), [])
    case.assertEqual(disorder(messages), [])
    return len(messages) - len(committed)


def controls(case, row, committed, messages):
    """One of them taken away, two of a key that change places, one that comes
    again under another id: each is noticed."""
    first = firsts(messages)
    noticed = lost(committed, [m for m in first if m is not first[0]])
    case.assertEqual(noticed, ([first[0].payload], []))
    proof.control(row, "one_taken_away", 1, 1)

    place = [(m.property("partitionkey"), m.topic) for m in first]
    i = next(at for at, of in enumerate(place)
             if of[0] is not None and of in place[at + 1:])
    j = place.index(place[i], i + 1)
    swapped = list(first)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    case.assertEqual(disorder(first), [])
    case.assertEqual([key for key, _, _ in disorder(swapped)], [place[i][0]])
    # a duplicate of the first behind the others is none
    case.assertEqual(disorder(first + first[:1]), [])
    proof.control(row, "two_change_places", 1, 1)

    other = type(first[0]).__new__(type(first[0]))
    other.__dict__.update(first[0].__dict__, id="another")
    case.assertEqual(renamed(first + [other]), [first[0].payload])
    proof.control(row, "another_id", 1, 1)
