// SPDX-License-Identifier: MIT
// Reads MQTT messages with the CloudEvents SDK in strict mode, as a consumer
// that has them from an MQTT client.
//
// In, a line each:  {"contentType": ..., "properties": {...}, "payload": hex}
// Out, a line each: {"event": {...}, "data": hex}, or {"error": "..."}
"use strict";

const readline = require("node:readline");
const { CloudEvent, MQTT } = require("cloudevents");

// What the consumer has in its hands, as the bytes that it stands for.
function bytesOf(event) {
  if (event.data === undefined)
    return Buffer.alloc(0);
  if (ArrayBuffer.isView(event.data))
    return Buffer.from(event.data);
  const isJson = !/^text\/plain/.test(event.datacontenttype);
  return Buffer.from(isJson ? JSON.stringify(event.data) : event.data);
}

function read(message) {
  const isStructured = message.contentType.startsWith("application/cloudevents");
  const payload = Buffer.from(message.payload, "hex");
  const event = MQTT.toEvent({
    PUBLISH: { "Content Type": message.contentType },
    headers: message.properties,
    body: isStructured ? payload.toString() : payload,
  }, true);
  // toEvent looks at the required attributes only; this at all of them
  const checked = new CloudEvent({ ...event }, true);
  const { data, data_base64, ...attributes } = checked;
  return { event: attributes, data: bytesOf(checked).toString("hex") };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  let answer;
  try {
    answer = read(JSON.parse(line));
  } catch (error) {
    answer = { error: error.message };
  }
  console.log(JSON.stringify(answer));
});
