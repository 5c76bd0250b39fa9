/* The API's manual: Swagger UI shows openapi.json. */
"use strict";
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#manual",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null, // which would ask another host
});
