// SPDX-License-Identifier: MIT
// A consumer whose effects happen once: mqtt and better-sqlite3.
//
//   node consumer.js HOST PORT CLIENT_ID TOPIC_FILTER DATABASE
"use strict";

const Database = require("better-sqlite3");
const mqtt = require("mqtt");

// The broker keeps our messages for so long while we are away.
const SESSION_S = 7 * 24 * 3600;
// Whoever is older than this has a clock that is wrong.
const OLDEST_MS = 90 * 24 * 3600 * 1000;

const [host, port, clientId, topicFilter, path] = process.argv.slice(2);

const db = new Database(path, { timeout: 30000 });
// The last line: what a killed process committed may not be on the disk yet,
// and a duplicate, which writes nothing, would be acknowledged.  It syncs.
db.exec(`
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS seen(
    source TEXT NOT NULL, id TEXT NOT NULL,
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (source, id)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS key_version(
    source TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (source, key)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS reading(key TEXT, payload BLOB NOT NULL);
  PRAGMA wal_checkpoint(PASSIVE);
`);
const sql = {
  mark: db.prepare("INSERT INTO seen(source, id) VALUES (?, ?)"
    + " ON CONFLICT DO NOTHING"),
  last: db.prepare("SELECT version FROM key_version"
    + " WHERE source = ? AND key = ?").pluck().safeIntegers(),
  note: db.prepare("INSERT INTO key_version VALUES (?, ?, ?) ON CONFLICT"
    + " DO UPDATE SET version = max(version, excluded.version)"),
  effect: db.prepare("INSERT INTO reading(key, payload) VALUES (?, ?)"),
};

// Yours goes here: whatever it writes to db happens once.
function effect(event) {
  sql.effect.run(event.key, event.payload);
}

// The event in a packet; throws if there is none.  A property that came twice
// is an array.
function read(packet) {
  const said = packet.properties?.userProperties ?? {};
  const { source, id, partitionkey = null, keyversion = null } = said;
  if (![source, id].every((text) => typeof text === "string" && text !== ""))
    throw new Error("no source, or no id");
  if (Array.isArray(partitionkey))
    throw new Error("two keys");
  if (keyversion !== null && !/^-?[0-9]{1,18}$/.test(keyversion))
    throw new Error("a keyversion that is no number");
  return {
    source, id, key: partitionkey,
    version: keyversion === null ? null : BigInt(keyversion),
    // the time of a replay says when it was sent first
    publishedMs: "replay" in said ? NaN : Date.parse(said.time),
    payload: packet.payload,
  };
}

// What is odd about the version of an event whose key was at last.
function judge(event, last) {
  if (last === undefined || event.version === last + 1n)
    return null;
  let what = event.version === last ? "repeat" : "back";
  if (event.version === null)
    what = "unversioned";
  else if (event.version > last)
    what = "gap";
  return `${what} ${event.source} ${event.key}: after ${last} came `
    + `${event.version ?? "none"}`;
}

// The highest version of each key so far; returns what is odd.
function noteVersion(event) {
  if (event.key === null)
    return null;
  const last = sql.last.get(event.source, event.key);
  if (event.version !== null)
    sql.note.run(event.source, event.key, event.version);
  return judge(event, last);
}

// One transaction: the effect, and the mark that it was done.  The constraint
// decides, not a SELECT before.
const take = db.transaction((event) => {
  if (sql.mark.run(event.source, event.id).changes === 0)
    return `duplicate ${event.id}`;
  effect(event);
  return noteVersion(event);
});

// On standard output a line for each effect, the rest beside it.
function tell(event, found) {
  if (found !== null)
    console.error(found);
  if (found === `duplicate ${event.id}`)
    return;
  const took = Date.now() - event.publishedMs;
  console.log(`effect ${event.id} `
    + (took >= 0 && took <= OLDEST_MS ? `${took.toFixed(1)} ms` : ""));
}

function handle(packet) {
  let event;
  try {
    event = read(packet);
  } catch (error) {
    // would come again for ever, and nobody could tell it from others
    console.error(`malformed ${packet.topic}: ${error.message}`);
    return;
  }
  tell(event, take.immediate(event));
}

const client = mqtt.connect({
  host, port, clientId, protocolVersion: 5, clean: false,
  properties: { sessionExpiryInterval: SESSION_S },
});
// The PUBACK leaves when acknowledge is called.
client.handleMessage = (packet, acknowledge) => {
  handle(packet);
  acknowledge();
};
client.on("connect", () => client.subscribe(topicFilter, { qos: 1 },
  (error) => {
    if (error)
      throw error;
  }));
// of the connection; it is made anew by itself
client.on("error", (error) => console.error(error.message));
