// A browser sends no SameSite=Strict cookie where the link stood on another site. From here on it does, so who is logged
// in already sees the page; who is not comes back, and then without this script.
location.replace(`${document.querySelector("form").dataset.after}${location.hash}`);
