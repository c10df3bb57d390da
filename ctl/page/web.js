// Starts the page of profctl web.

import {WebPage} from "./web_page.js";

new WebPage(document.body, new URLSearchParams(location.search).get("token") ?? "");
